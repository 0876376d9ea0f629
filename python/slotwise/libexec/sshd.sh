#!/bin/sh
# sshd.sh: a node of a parallel job starts an sshd of its own; node 0 learns how to reach all of them.
#
# A job's script reads it in:    . "$(condor_config_val libexec)/sshd.sh"
# (HTCondor's wants $_CONDOR_PROCNO and $_CONDOR_NPROCS as words behind it; here they do no harm.)
#
# Afterwards node 0 has, in its scratch directory, the file `contact` with a line for each node,
#     NODE HOST PORT USER DIRECTORY RUN
# which `condor_ssh NODE command ...` uses. Each node calls sshd_cleanup when it is done.
#
# Each sshd takes one key, made for this start of the job, and runs as the job's user. Keys and lines go by way of the
# job's own directory at the access point, which nobody else can read.

: "${_CONDOR_SCRATCH_DIR:?this runs in nodes of parallel jobs only}"
: "${_CONDOR_REMOTE_SPOOL_DIR:?this runs in nodes of parallel jobs only}"

_node=$_CONDOR_PROCNO
_nodes=$_CONDOR_NPROCS
_keys=$_CONDOR_SCRATCH_DIR/.condor_ssh
_spool=$_CONDOR_REMOTE_SPOOL_DIR
_sshd_pid=

sshd_cleanup() {
    [ -z "$_sshd_pid" ] || kill "$_sshd_pid" 2>/dev/null
    _sshd_pid=
    rm -rf "$_keys" "$_CONDOR_SCRATCH_DIR/contact"
}

_sshd_fails() {
    echo "sshd.sh: node $_node: $1" >&2
    sshd_cleanup
    exit 255
}

_sshd_program() {
    _found=$(condor_config_val "$1" 2>/dev/null) || _found=
    [ -n "$_found" ] || _found=$(PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin command -v "$2") || _found=
    [ -n "$_found" ] || _sshd_fails "$2 is not installed here, and $1 names no other"
    echo "$_found"
}

trap 'sshd_cleanup; exit 143' TERM
_sshd=$(_sshd_program CONDOR_SSHD sshd) || exit 255
_keygen=$(_sshd_program CONDOR_SSH_KEYGEN ssh-keygen) || exit 255

umask 077
rm -rf "$_keys"
mkdir "$_keys" || _sshd_fails "cannot make $_keys"
"$_keygen" -q -t ed25519 -N '' -C "node $_node" -f "$_keys/host" || _sshd_fails "cannot make a host key"
"$_keygen" -q -t ed25519 -N '' -C "node $_node" -f "$_keys/$_node.key" || _sshd_fails "cannot make a key"
# Commands that come by ssh find condor_ssh here: launchers look for it at every node.
ln -s "$(command -v condor_ssh)" "$_keys/condor_ssh"
# Lines of a former start of the job are told apart by its number.
_run=$(condor_chirp get_job_attr NumShadowStarts) || _sshd_fails "cannot ask the access point"

# Ports below 1024 are not ours to use; the first that is free is taken.
_port=$((4444 + (_node * 37 + $$) % 20000))
_tries=0
while :; do
    "$_sshd" -D -e -f /dev/null -p "$_port" -o "HostKey=$_keys/host" -o "AuthorizedKeysFile=$_keys/$_node.key.pub" \
        -o PidFile=none -o StrictModes=no -o AuthenticationMethods=publickey -o PasswordAuthentication=no \
        -o KbdInteractiveAuthentication=no -o "AcceptEnv=_CONDOR_* OMPI_* PMI*" -o PermitUserEnvironment=no \
        </dev/null 2>"$_keys/log" &
    _sshd_pid=$!
    _looks=0
    while kill -0 "$_sshd_pid" 2>/dev/null && [ "$_looks" -lt 100 ]; do
        ! grep -qs "Server listening" "$_keys/log" || break 2
        sleep 0.1
        _looks=$((_looks + 1))
    done
    kill "$_sshd_pid" 2>/dev/null
    _tries=$((_tries + 1))
    [ "$_tries" -lt 50 ] || _sshd_fails "sshd does not start: $(tail -n 1 "$_keys/log")"
    _port=$((_port + 1))
done

# The line comes last: whoever sees it finds the keys.
_host=$(hostname -I 2>/dev/null | cut -d' ' -f1)
[ -n "$_host" ] || _host=$(hostname)
condor_chirp put -perm 0600 "$_keys/$_node.key" "$_spool/$_node.key" &&
    condor_chirp put -perm 0600 "$_keys/host.pub" "$_spool/$_node.host" &&
    echo "$_node $_host $_port $(id -un) $_CONDOR_SCRATCH_DIR $_run" |
    condor_chirp put -perm 0600 - "$_spool/$_node.contact" ||
    _sshd_fails "cannot leave its keys at the access point"

if [ "$_node" -eq 0 ]; then
    : >"$_keys/known_hosts"
    : >"$_keys/contact"
    _other=0
    _waited=0
    while [ "$_other" -lt "$_nodes" ]; do
        _line=$(condor_chirp fetch "$_spool/$_other.contact" - 2>/dev/null) || _line=
        case $_line in
        *" $_run")
            condor_chirp fetch "$_spool/$_other.key" "$_keys/$_other.key.new" &&
                condor_chirp fetch "$_spool/$_other.host" "$_keys/$_other.host" ||
                _sshd_fails "cannot fetch the keys of node $_other"
            chmod 600 "$_keys/$_other.key.new"
            mv "$_keys/$_other.key.new" "$_keys/$_other.key"
            echo "$_line" >>"$_keys/contact"
            echo "node-$_other $(cut -d' ' -f1,2 "$_keys/$_other.host")" >>"$_keys/known_hosts"
            for _what in key host contact; do condor_chirp remove "$_spool/$_other.$_what"; done
            _other=$((_other + 1))
            ;;
        *)
            # A node that is lost ends the job, so this ends; twenty minutes are for nodes that hang.
            _waited=$((_waited + 1))
            [ "$_waited" -lt 1200 ] || _sshd_fails "node $_other did not report"
            sleep 1
            ;;
        esac
    done
    mv "$_keys/contact" "$_CONDOR_SCRATCH_DIR/contact"
fi
