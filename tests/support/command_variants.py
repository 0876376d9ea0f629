"""More of HTCondor's commands, by options and combinations that :mod:`tests.support.command_cases` has not.

``python3 command_variants.py record`` records them as that module does (conformance/command-variants.jsonl).
"""

from __future__ import annotations

from tests.support import command_cases

_SLEEP = "executable = /bin/sleep\narguments = 100000\n"
_SMALL = "request_memory = 64M\nrequest_disk = 10M\n"
_NEVER = "requirements = TARGET.Nope =?= true\n"
FILES = {
    "run.sub": f"{_SLEEP}{_SMALL}log = run.log\nqueue 2\n",
    "idle.sub": f'{_SLEEP}{_NEVER}{_SMALL}log = idle.log\npriority = 2\n+Colour = "red"\n+Weight = 2.5\nqueue 3\n',
    "held.sub": f"{_SLEEP}hold = true\n{_SMALL}log = held.log\nqueue 2\n",
    "nodes.sub": f'{_SLEEP}{_NEVER}{_SMALL}+DAGNodeName = "A$(Process)"\n+DAGManJobId = 77\nqueue 2\n',
    "batch.sub": f'{_SLEEP}{_NEVER}{_SMALL}batch_name = analysis\nnice_user = false\n+Colour = "blue"\n'
    "accounting_group = group_physics\naccounting_group_user = alice\nqueue 2\n",
    "done.sub": "executable = /bin/sh\narguments = \"-c 'sleep $(s); exit $(Process)'\"\nlog = done.log\nhold = true\n"
    f'{_SMALL}+Colour = "green"\nqueue s in (0 2)\n',
    "gone.sub": f"{_SLEEP}requirements = false\nlog = gone.log\nqueue\n",
    "plain.sub": f"{_SLEEP}requirements = false\nqueue\n",
    "noqueue.sub": f"{_SLEEP}requirements = false\n",
    "table.cpf": "SELECT\n  ClusterId AS CLUSTER WIDTH 8\n  ProcId AS PROC\n  Owner AS WHO WIDTH -10\n"
    "  JobStatus AS S PRINTAS JOB_STATUS\nSUMMARY NONE\n",
    "bare.cpf": "SELECT BARE\n  ClusterId\n  ProcId\n  Cmd\nSUMMARY NONE\n",
    "format.cpf": 'SELECT NOHEADER\n  ClusterId PRINTF "%05d"\n  ProcId PRINTF ".%d"\n  JobPrio AS PRIO WIDTH 6 OR ??\n'
    "  NoSuch AS GONE OR -\nSUMMARY NONE\n",
    "where.cpf": "SELECT\n  ClusterId AS ID\n  Colour AS COLOUR WIDTH AUTO OR ?\nWHERE JobPrio > 1\nSUMMARY STANDARD\n",
    "sep.cpf": 'SELECT SEPARATOR "," RECORDPREFIX "[" RECORDSUFFIX "]\\n"\n  ClusterId\n  ProcId\nSUMMARY NONE\n',
    "slots.cpf": "SELECT\n  Name AS NAME WIDTH -20\n  Cpus AS C\n"
    "  Memory AS MEM WIDTH 8\n  State AS STATE WIDTH -10\nSUMMARY NONE\n",
    "slotslabel.cpf": "SELECT LABEL\n  SlotID\n  Cpus\nWHERE PartitionableSlot =?= true\nSUMMARY NONE\n",
    "unknown.cpf": "SELECT\n  ClusterId AS ID PRINTAS NO_SUCH_THING\n",
    "dump.sub": "executable = /bin/echo\narguments = hello $(Process)\n"
    "request_memory = 100M\nrequest_disk = 5M\nqueue 2\n",
    "items.sub": "executable = /bin/echo\narguments = $(a)\nrequirements = false\nqueue a from items.txt\n",
    "items.txt": "one\ntwo\n",
    "jobs.ads": 'ClusterId = 1\nProcId = 0\nOwner = "ann"\nJobStatus = 1\nCmd = "/bin/x"\nQDate = 1795738668\n\n'
    'ClusterId = 1\nProcId = 1\nOwner = "bob"\nJobStatus = 2\nCmd = "/bin/y"\nQDate = 1795738668\n',
    "slots.ads": 'MyType = "Machine"\nName = "slot1@a"\nMachine = "a"\nCpus = 4\nMemory = 100\nState = "Unclaimed"\n'
    'Activity = "Idle"\nArch = "X86_64"\nOpSys = "LINUX"\n\nMyType = "Machine"\nName = "slot1@b"\nMachine = "b"\n'
    'Cpus = 8\nMemory = 200\nState = "Owner"\nActivity = "Idle"\nArch = "X86_64"\nOpSys = "LINUX"\n',
    "extra.conf": "SCRIPT_A = three\n",
    "noitems.sub": f"{_SLEEP}queue a from empty.txt\n",
    "empty.txt": "",
    "nofile.sub": f"{_SLEEP}queue a from not-there.txt\n",
    "below0.sub": f"{_SLEEP}queue -1\n",
    "unclosed.sub": f"{_SLEEP}queue a from (\none\ntwo\n",
    "openif.sub": f"{_SLEEP}if defined A\nqueue\n",
    "twoelse.sub": f"{_SLEEP}if true\nelse\nelse\nendif\nqueue\n",
    "noif.sub": f"{_SLEEP}endif\nqueue\n",
    "oddif.sub": f"{_SLEEP}if one two\nendif\nqueue\n",
    "noinclude.sub": f"{_SLEEP}include : not-there.inc\nqueue\n",
    "notemplate.sub": f"use template : nosuch\n{_SLEEP}queue\n",
    "stops.sub": f"{_SLEEP}error : not today\nqueue\n",
}

SCRIPT = r"""
submit -terse run.sub
until 1.0 2\n1.1 2\n <- q 1 -af:j JobStatus
submit -terse idle.sub
submit -terse held.sub
submit -terse nodes.sub
submit -terse batch.sub
submit -terse done.sub
submit -terse gone.sub
rm 7
until All jobs in cluster 6 have been released\n <- release 6
until 7.0 3\n <- history 7 -af:j JobStatus
until 6.0 0 4\n6.1 1 4\n <- history -forwards 6 -af:j ExitCode JobStatus
until 1\n2\n <- status -constraint "DynamicSlot =?= true" -af DSlotId
until 1\n1\n <- status -constraint "State == \"Claimed\" && Activity == \"Busy\"" -af SlotID
reschedule
until 1\n <- status -schedd -af TotalRemovedJobs==0&&TotalRunningJobs==2&&TotalHeldJobs==2?1:0
# ------------------------------------------------------------------ q: which jobs
q 2.1 3.0
q 2.0 2.1 -nobatch
q 2.0-2.1
q 2-3
q 2,3
q 1.0,1.1
q 1. 
q .1
q -all
q -alluser -tot
q -con "Colour == \"red\"" -nobatch
q -constraint "Colour == \"red\"" -constraint "ProcId > 0" -af:j ProcId
q -constraint "Colour =?= undefined" -af:j Owner
q -const "NoSuch > 1" -nobatch
q -constraint "1 +" -nobatch
q -constraint "" -nobatch
q -constraint
q -name nosuchschedd
q -pool
q -name
q -schedd-constraint true
q -schedd-constraint "false"
q -submitter
q -global -nobatch 2
q -g -tot
q 2 -run
q -idle 3
q -hold 2
q -allusers 2.0
q -currentrun 1.0
q -limit 0 -af ClusterId
q -limit -1 -af:j ProcId
q -limit 1 -long -attributes ClusterId
q -limit 2 -totals
q -limit
# ------------------------------------------------------------------ q: forms
q 2.0 -af:jlhrngt Cmd
q 2 -af:lrng Weight Colour
q 2.0 -af:h Colour Weight NoSuch
q 2.0 -af:Vh Colour Weight
q 2.0 -af:o Cmd
q 2 -af:jV Colour
q 2 -af:, Colour Weight ProcId
q 2 -af:,h Colour Weight
q 2 -af:rV Requirements
q 2.0 -af:T Cmd
q 2.0 -autoformat:jhr Weight
q 2 -af:x ProcId
q 2 -af:y ProcId
q 2 -af -limit 1
q 2 -af Colour -limit 1
q 2.0 -af Args JobStatus==1 "Weight * 2" "ifThenElse(JobPrio > 1, \"hi\", \"lo\")"
q 2.0 -af "interval(3600)" "split(\"a b\")" "{1,2}" "[a=1]" undefined error true
q 2.0 -af:r "{1,2}" "[a=1]" Weight+1
q 2.0 -af:V "{1,2}" "\"x\"" "strcat(\"a\",\"b\")"
q 2.0 -format "%s" Colour -format " %d" ProcId -format " %f\n" Weight
q 2.0 -format "%d\n" Colour
q 2.0 -format "%s\n" Weight
q 2.0 -format "%v %V\n" Colour
q 2.0 -format "%V\n" Colour
q 2.0 -format "%05d\n" ProcId -format "%x\n" ClusterId
q 2.0 -format "%e\n" Weight -format "%g\n" Weight
q 2.0 -format "%.1f\n" ProcId
q 2.0 -format "%%\n" ProcId
q 2.0 -format "plain\n" ProcId
q 2.0 -format "gone %s\n" NoSuch
q 2.0 -format "%d\n" "ProcId + 10" -format "%s\n" "Colour == \"red\""
q 2 -format "\t%d\n" ProcId
q -format
q 2.0 -long:json -attributes ClusterId
q 2.0 -long:new -attributes ClusterId
q 2.0 -long:xml -attributes ClusterId
q 2.0 -long:long -attributes ClusterId
q 2.0 -long:nosuch -attributes ClusterId
q 2.0 -long -attributes clusterid,colour,nosuch
q 2.0 -long -attributes "ClusterId ProcId"
q 2.0 -long -attributes Weight
q 2 -json -attributes Colour,Weight
q 99 -json
q 99 -xml
q 99 -long
q 2 -xml -attributes ProcId
q -attributes
q 2.0 -attributes ClusterId
q 2.0 -attributes ClusterId -nobatch
q -pr bare.cpf
q -print-format table.cpf 2
q -print-format format.cpf 2
q -print-format where.cpf
q -print-format unknown.cpf
q -print-format
q -pr table.cpf -constraint "ProcId == 1"
q -pr table.cpf -af ClusterId
# ------------------------------------------------------------------ q: views
q -totals -run
q -totals -hold
q -tot 2
q -totals -constraint "Colour == \"red\""
q -totals -af ClusterId
q -io 1
q -io -nobatch
q -dag 4
q -dag -nobatch 4
q -dag -allusers
q -grid 1
q -goodput
q -goodput 1
q -cputime 2
q -cputime -nobatch 1
q -currentrun 1
q -hold -af:j HoldReasonCode
q -hold -limit 1
q -hold:1
q -hold:1 -af:j HoldReasonCode
q -hold:2,15
q -hold -constraint "ProcId == 1"
q -hold -wide
q -run -af:j RemoteHost==undefined
q -run -constraint "ProcId == 0"
q -run -hold
q -run -idle
q -idle -nobatch
q -idle -batch
q -idle -af:j ProcId
q -hold -batch
q -hold -totals
q -factory 2
q -jobset -long
q -batch 2
q -batch -nobatch
q -batch 2.1
q -nobatch -batch 2
q -progress 2
q -wide 2
q -wide:100 2
q -wide:20 2
q -nobatch -wide:30 2
q -expert
q -stream-results -nobatch 2
q -jobads jobs.ads
q -jobads jobs.ads -nobatch
q -jobads jobs.ads -af:j Owner
q -jobads jobs.ads 1.1 -nobatch
q -jobads jobs.ads -constraint "Owner == \"bob\"" -af:j Owner
q -jobads jobs.ads -run -nobatch
q -jobads jobs.ads -idle
q -jobads jobs.ads -totals
q -jobads jobs.ads -long
q -jobads jobs.ads -json
q -jobads jobs.ads -limit 1 -af ProcId
q -jobads
q -userlog idle.log
q -userlog done.log
q -userlog not-there.log
q -unmatchable 2
q -unmatchable 1
q -unmatchable -af:j JobStatus
q -unmatchable -totals
q -unmatchable -batch
q -version -nobatch
q -help state
q -debug -af nothing 99
q --nobatch 2
q -nob 2
q -no 2
q -au
q -jo
q -w 2
q -l 99
q -xm
q -zzz
q 2.0 -nobatch extra.word
q 2.x
q x.2
# ------------------------------------------------------------------ status
status -constraint "Cpus > 1"
status -con "Cpus > 100"
status -constraint "(("
status -constraint
status slot1
status nosuch nosuch2
status -nosuch slot1
status -total
status -tot
status -totals -avail
status -avail -total
status -claimed -af SlotID
status -claimed -total
status -avail -af SlotID
status -state -total
status -server
status -server -total
status -run -total
status -cod
status -absent
status -offline
status -compact
status -compact -total
status -compact -af Cpus
status -nocompact
status -gpus
status -gpus -compact
status -schedd -total
status -schedd -long -attributes TotalIdleJobs
status -schedd -constraint false
status -submitters -total
status -submitters -af Name
status -submitters -constraint "RunningJobs > 0" -af RunningJobs IdleJobs HeldJobs
status -subm
status -master -af MyType
status -master -total
status -negotiator -af MyType
status -collector -af MyType
status -grid
status -defrag
status -generic
status -storage
status -had
status -credd
status -subsystem nosuch
status -subsystem schedd -af MyType
status -subsystem
status -startd -af MyType SlotType
status -slot -af SlotType
status -slots -total
status -licenses
status -af:h SlotID Cpus -constraint "PartitionableSlot =?= true"
status -af:lrng SlotID Cpus -constraint "PartitionableSlot =?= true"
status -constraint "PartitionableSlot =?= true" -af:V SlotType Cpus
status -constraint "PartitionableSlot =?= true" -af:, SlotType Cpus
status -constraint "PartitionableSlot =?= true" -af:t SlotType Cpus
status -constraint "PartitionableSlot =?= true" -af:j SlotType
status -constraint "PartitionableSlot =?= true" -format "%s " SlotType -format "%d\n" TotalSlotCpus
status -constraint "PartitionableSlot =?= true" -format "%d\n" SlotType
status -constraint "PartitionableSlot =?= true" -af Cpus/2 Memory>0 NoSuch
status -constraint "PartitionableSlot =?= true" -long -attributes SlotType,TotalSlotCpus
status -constraint "PartitionableSlot =?= true" -json -attributes SlotType
status -constraint "PartitionableSlot =?= true" -xml -attributes SlotType
status -constraint "PartitionableSlot =?= true" -long:new -attributes SlotType
status -constraint "PartitionableSlot =?= true" -long:json -attributes SlotType
status -print-format slots.cpf
status -print-format slotslabel.cpf
status -pr not-there.cpf
status -print-format unknown.cpf
status -ads slots.ads
status -ads slots.ads -total
status -ads slots.ads -af Name Cpus
status -ads slots.ads -constraint "Cpus > 4"
status -ads slots.ads -compact
status -ads slots.ads -long
status -ads slots.ads -json
status -ads slots.ads -sort Cpus -af Name
status -ads slots.ads -sort "-Cpus" -af Name
status -ads slots.ads -limit 1 -af Name
status -ads slots.ads slot1@b
status -ads slots.ads -avail
status -ads not-there.ads
status -ads
status -sort
status -limit x
status -limit 1 -af MyType
status -statistics all:2 -schedd -af MyType
status -direct nosuch
status -natural
status -wide
status -target nosuch.ads
status -merge
status -af
status -format "%s"
status -pool nosuchhost:9618
status -annex-name x
status -expert
status -vers
status -zzz
status -any -total
status -any -constraint "MyType == \"Scheduler\"" -af MyType
status -any -con "MyType == \"Scheduler\"" -long -attributes MyType
# ------------------------------------------------------------------ history
history -limit 1
history -match 1 -af:j JobStatus
history -limit 0
history -match
history -scanlimit 1 -af:j JobStatus
history -scanlimit x
history -backwards -af:j JobStatus
history -forwards -af:j JobStatus
history -forwards -limit 1 -af:j JobStatus
history -since 6 -af:j JobStatus
history -since 6.0 -af:j JobStatus
history -since "JobStatus == 3" -af:j JobStatus
history -since
history -since "((" 
history -completedsince 1000000000 -af:j JobStatus
history -completedsince 4000000000 -af:j JobStatus
history -completedsince x
history 6 -af:j Colour
history 6.1 -af:j Colour
history 6.0 7 -af:j JobStatus
history 99
history nobody
history -constraint "ExitCode == 1" -af:j ExitCode
history -con "Colour == \"green\"" -af:j Colour
history -constraint "(("
history -constraint false
history 6 -format "%d\n" ExitCode
history -af:jh JobStatus ExitCode
history -af:lrng JobStatus -limit 1
history 6.0 -long -attributes ClusterId,JobStatus
history 6.0 -json -attributes ClusterId,JobStatus
history 6.0 -xml -attributes ClusterId
history 6.0 -attributes ClusterId -long
history 99 -json
history 99 -long
history -print-format table.cpf
history -print-format bare.cpf 6
history -wide
history -wide:60
history -wide -limit 1
history -file done.log
history -file not-there
history -userlog done.log
history -userlog not-there.log
history -epochs -af:j JobStatus
history -epochs -limit 1 -af:j RunInstanceID
history -epochs 7
history -type EPOCH -af:j JobStatus
history -type nosuch
history -startd
history -startd -af JobStatus
history -name nosuchschedd
history -local -af:j JobStatus
history -diagnostic
history -schedd
history -version
history -zzz
history -limit 1 -limit 2 -af ProcId
history -cluster 6
history -search nosuch
history -directory
history -extract x
# ------------------------------------------------------------------ userprio
userprio -all
userprio -quotas
userprio -most
userprio -most -allusers
userprio -usage
userprio -usage -allusers
userprio -priority -allusers
userprio -grouprollup
userprio -grouprollup -allusers
userprio -flat
userprio -hierarchical
userprio -hierarchical -allusers
userprio -grouporder
userprio -l -constraint "Name == \"nobody\""
userprio -getreslist
userprio -modular
userprio -allusers -constraint "Priority > 0" -af:r PriorityFactor
userprio -json
userprio -pool nosuchhost:9618
userprio -pool
userprio -name nosuch
userprio -setfactor
userprio -delete
userprio -resetusage
userprio -setfloor group_physics 2
userprio -setfactor group_physics 20
userprio -quotas -allusers
userprio -activefrom 1 1 2030
userprio -inputfile not-there
userprio -zzz
userprio -debug -zzz
# ------------------------------------------------------------------ config_val
config_val -dump SCRIPT_ SCHEDD
config_val -dump -raw SCRIPT_B
config_val -dump -mixedcase script_b
config_val -dump -subsystem SCHEDD SCRIPT_A
config_val -d SCRIPT_N
config_val -dump "("
config_val -dump -evaluate SCRIPT_N
config_val -expand SCRIPT_B
config_val -expanded SCRIPT_B
config_val -v SCRIPT_A SCRIPT_B
config_val -v -raw SCRIPT_B
config_val -v -expand SCRIPT_B
config_val -verb SCRIPT_A
config_val -evaluate SCRIPT_N
config_val -evaluate "SCRIPT_N + 1"
config_val -eval SCRIPT_LIST
config_val -raw SCRIPT_A SCRIPT_B
config_val -default SCHEDD_INTERVAL
config_val -default -v SCHEDD_INTERVAL
config_val -default NEGOTIATOR_INTERVAL SCHEDD_INTERVAL
config_val -config
config_val -root-config nosuch SCRIPT_A
config_val -local-name x SCRIPT_A
config_val -local-name
config_val -subsystem
config_val -subsystem nosuch SCRIPT_A
config_val -host x SCRIPT_A
config_val -owner
config_val -address
config_val -addr nonsense SCRIPT_A
config_val -address "<127.0.0.1:1>" SCRIPT_A
config_val -name nosuchhost SCRIPT_A
config_val -name nosuchhost -pool 127.0.0.1:1 SCRIPT_A
config_val -pool
config_val -schedd
config_val -schedd SCRIPT_A SCRIPT_B
config_val -schedd -raw SCRIPT_B
config_val -schedd -default SCHEDD_INTERVAL
config_val -schedd -dump SCRIPT_
config_val -schedd -v SCRIPT_B
config_val -schedd NEGOTIATOR_INTERVAL
config_val -collector COLLECTOR_HOST=x
config_val -master -dump zzzz
config_val -negotiator SCRIPT_N
config_val -set "SCRIPT_A = 5"
config_val -rset "SCRIPT_A = 5"
config_val -schedd -set "SCRIPT_A = 5"
config_val -schedd -rset "SCRIPT_A = 5"
config_val -schedd -set "SCRIPT_A"
config_val -schedd -set
config_val -schedd -unset SCRIPT_A
config_val -schedd -runset SCRIPT_A
config_val -schedd -unset
config_val -set
config_val -macro
config_val -macro "$(NOPE)"
config_val -macro "$ENV(NOPE)" "$(SCRIPT_LIST)"
config_val -macro "$INT(SCRIPT_N,%03d)" "$REAL(SCRIPT_N)" "$STRING(SCRIPT_A)"
config_val -macro "$SUBSTR(SCRIPT_B,0,3)" "$CHOICE(1,SCRIPT_LIST)"
config_val -macro "$Fn(SCRIPT_A)" "$(SCRIPT_A:none)x$(NOPE:none)"
config_val use role
config_val use FEATURE:nosuch
config_val use FEATURE
config_val use POLICY:Hold_If_Memory_Exceeded
config_val use ROLE:Personal
config_val use SECURITY:User_Based
config_val use PERSONAL
config_val use ROLE Execute
config_val -check-if "defined NOPE"
config_val -check-if "true"
config_val -check-if "version < 5.0"
config_val -check-if "1 == 1"
config_val -check-if
config_val -writeconfig:file
config_val -used SCRIPT_A
config_val -unused SCRIPT_A
config_val -diagnostic SCRIPT_A
config_val -zzz SCRIPT_A
config_val SCRIPT_A -zzz
config_val SCHEDD.SCRIPT_A
config_val "SCRIPT A"
config_val ""
config_val SCRIPT_A:x
config_val DAEMON_LIST
config_val NUM_CPUS MEMORY
config_val FULL_HOSTNAME_NOT
# ------------------------------------------------------------------ submit
submit -
submit -terse -append "+Extra = 1" plain.sub
submit -a "priority = x" plain.sub
submit -a "nonsense" plain.sub
submit -append
submit -queue
submit -terse noqueue.sub -queue 2
submit -terse noqueue.sub -queue a in one two
submit -terse noqueue.sub -queue a from items.txt
submit -terse noqueue.sub -queue 2 a in one
submit noqueue.sub -queue nonsense words
submit -terse noqueue.sub
submit -terse items.sub
submit -items items.txt plain.sub
submit -batch-name
submit -terse -batch-name named plain.sub
submit -terse -disable plain.sub
submit -unused plain.sub
submit -debug -zzz plain.sub
submit -v plain.sub extra.sub
submit -password x plain.sub
submit -name
submit -addr "<127.0.0.1:1>" plain.sub
submit -remote nosuch plain.sub
submit -spool -terse dump.sub
submit -dry-run
submit -dry-run - -terse dump.sub
submit -dump - plain.sub
submit -capabilities
submit -stm x plain.sub
submit -factory -terse dump.sub -append "requirements = false"
submit -maxjobs 1 plain.sub
submit -maxjobs x plain.sub
submit -single-cluster -terse plain.sub
submit A=1 B=2 -terse plain.sub
submit =1 plain.sub
submit plain.sub -terse -queue 1
submit -file plain.sub
submit -interactive -dry-run - dump.sub
submit -terse -allow-crlf-script plain.sub
submit -zzz
# ------------------------------------------------------------------ act
hold 2.0 -reason "wait" -subcode 3
q 2.0 -af HoldReason HoldReasonCode HoldReasonSubCode
hold 2.0,2.1
hold 2.1-2.2
hold 2.2 2.0
hold -reason only
hold -constraint "Colour == \"blue\"" -totals
hold -con "Colour == \"blue\""
hold -constraint
hold 2 -all
hold -addr nonsense 2.0
hold -pool nosuchhost:9618 2.0
hold -name
hold -debug -zzz
hold -subcode
release 2.0 2.2
release -constraint "Colour == \"blue\""
release -constraint "Colour == \"blue\"" 
release -con "NoSuch == 1"
release -reason fine 2.2
release -zzz
release 3.0 3.1
hold 3
prio -p +1 2.0
prio -p -1 2.0
prio -p 5 2.0 2.1
prio -p 5 2.0 99.0
prio +5
prio -n nosuch -p 1 2.0
prio -zzz -p 1 2.0
q 2 -af:j JobPrio
qedit 2.0 Colour '"pink"'
qedit 2 Weight 3.5
qedit 2.0 Weight
qedit 2.0 Owner '"bob"'
qedit 2.0 JobStatus 5
qedit 2.0 Requirements "1 +"
qedit 2.0 Requirements TARGET.Nope
qedit -constraint "Colour == \"all\"" Colour '"two"'
qedit -con "((" Colour 1
qedit -name nosuch 2.0 A 1
qedit -owner nobody A 1
qedit 2.0 A = 3
qedit 2.0 A=3 B=4
qedit 2.0 "=" 1
qedit -dry 2.0 A 1
qedit -debug 2.0 C 2
qedit
q 2.0 -af Colour Weight A B C
suspend 2.0 99.0
suspend -constraint false
suspend -zzz
continue 99
continue -constraint "ProcId == 0"
vacate_job 99
vacate_job 2.0 2.1
vacate_job -fast 2
vacate_job -graceful 2.0
vacate_job -constraint false
rm 2.0,2.1
rm 2.0 2.9
rm -reason "no more" 2.1
history 2.1 -af RemoveReason
rm -constraint "Colour == \"blue\"" -totals
rm -con "Colour == \"nosuch\""
rm -forcex 99
rm -forcex -constraint false
rm -reason x
rm -constraint
rm 3.0 nobody
rm -zzz
rm 4 3
rm -all
rm -pool nosuchhost:9618 1
until  <- q -af ClusterId
q -nobatch
q -totals -allusers
# ------------------------------------------------------------------ wait, logs
wait done.log 6
wait done.log 6.0 
wait done.log 6.1
wait -num 2 done.log
wait -num 1 -echo gone.log
wait -echo gone.log
wait -echo:json gone.log
wait -echo:nosuch gone.log
wait -status gone.log
wait -status -echo gone.log
wait -debug gone.log
wait -wait 1 -num 5 done.log
wait -wait 0 done.log
wait -wait -1 done.log
wait -allevents gone.log
wait -wait 1 not-there.log
wait gone.log 99
wait gone.log 7.0.0
wait gone.log extra words
wait -zzz gone.log
wait -num
wait -wait
userlog done.log
userlog -total done.log
userlog -raw gone.log
userlog not-there.log
userlog
check_userlogs gone.log
check_userlogs not-there.log
check_userlogs
# ------------------------------------------------------------------ ping, reschedule and others
ping -quiet WRITE
ping -quiet NOSUCH
ping -q READ
ping -type collector READ
ping -type negotiator READ
ping -type startd READ
ping -type master READ
ping -type
ping -name
ping -name nosuch
ping -pool nosuchhost:9618 READ
ping -verbose READ
ping DC_NOP
ping READ NOSUCH
ping -version
reschedule -zzz
reschedule -name nosuch
reschedule extra
drain -zzz
drain -graceful
drain -cancel
drain -check x nosuchhost
drain -request-id
vacate
vacate nosuchhost
vacate -help
off -zzz
off nosuchhost
off -help
off -version
off -name nosuchhost
off -subsystem nosuch
off -daemon
off -constraint
on -zzz
on nosuchhost
on -daemon
restart nosuchhost
restart -zzz
restart -daemon
reconfig nosuchhost
reconfig -zzz
reconfig -daemon
reconfig
reconfig -schedd
reconfig -startd
reconfig -daemon negotiator
reconfig -all
reconfig -constraint "((("
reconfig -constraint false
reconfig -name nosuchhost
reconfig -addr nonsense
reconfig -addr
set_shutdown
set_shutdown -zzz
set_shutdown -exec x
set_shutdown -clear
set_shutdown -clear nosuchhost
set_shutdown -help
tail -zzz
tail 99
tail x
tail -maxbytes x 99.0
transfer_data -zzz
transfer_data -constraint false
transfer_data 99.0
ssh_to_job -zzz
ssh_to_job x
ssh_to_job -help
ssh_to_job -version
ssh_to_job -auto-retry 99.0
ssh_to_job -ssh
advertise -zzz
advertise NOSUCH_COMMAND slots.ads
advertise UPDATE_STARTD_AD not-there.ads
advertise -help
who -zzz
who -help
findhost -zzz
findhost -n x
fetchlog
fetchlog nosuchhost
fetchlog -zzz
gather_info -zzz
top -zzz
token_create -zzz
token_list -zzz
token_fetch -zzz
token_request -zzz
token_request_list -zzz
token_request_approve -zzz
token_request_auto_approve
update_machine_ad
update_machine_ad -zzz
qusers -zzz
qusers -help
transform_ads
transform_ads -zzz
version -syntax
version -v
version 1
# ------------------------------------------------------------------ descriptions that cannot be read
submit noitems.sub
submit nofile.sub
submit -terse nofile.sub
submit -dry-run - nofile.sub
submit below0.sub
submit unclosed.sub
submit openif.sub
submit twoelse.sub
submit noif.sub
submit oddif.sub
submit noinclude.sub
submit notemplate.sub
submit stops.sub
# ------------------------------------------------------------------ words that are off, and empty answers
q -1
q -xml -json 1.0
q -jobads -
status -claimed -avail
status -sort "((" -af SlotID
history -name
history -format "%s"
history -af
userprio nosuch
userprio -long nosuch
config_val use "FEATURE:Monitor(a,b,c)"
prio -pool 127.0.0.1:1 -p 1 4.0
ping -addr nonsense READ
who -af
qusers -add newone@peer.local
qusers -disable newone@peer.local -reason "no reason"
qusers -remove newone@peer.local
token_create -identity a@b -lifetime x
token_request_list
token_request_list -reqid 99
token_request_approve
token_request_approve -reqid 99
token_request_auto_approve -netblock 10.0.0.0/8
"""


def record() -> None:
    """Print what the commands in PATH, which are HTCondor's, answer."""
    command_cases.record(SCRIPT, FILES)


if __name__ == "__main__":
    record()
