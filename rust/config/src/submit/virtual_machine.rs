//! The VM universe: what a job says of its virtual machine, and what the machine must have for it.

use crate::ConfigError;
use crate::submit::job::{self, Done, Job};
use crate::submit::requirements::{Clauses, Mentioned};
use crate::submit::units;

/// Sets the attributes of a VM universe job. A job of another universe has none.
pub fn virtual_machine(job: &mut Job<'_>) -> Done {
    if !is_wanted(job) {
        return Ok(());
    }
    let kind = kind(job)?;
    let checkpoint = told(job, "vm_checkpoint", "JobVMCheckpoint")?;
    let networking = told(job, "vm_networking", "JobVMNetworking")?;
    if checkpoint && networking {
        transfers_at_eviction(job)?;
    }
    if networking && let Some(wanted) = job.command("vm_networking_type", "JobVMNetworkingType")? {
        job.put_text("JobVMNetworkingType", &wanted);
    }
    told(job, "vm_vnc", "JobVMVNCConsole")?;
    memory(job)?;
    vcpus(job)?;
    if let Some(address) = job.command("vm_macaddr", "JobVM_MACADDR")? {
        job.put_text("JobVM_MACADDR", &address);
        if !is_ethernet_address(&address) {
            job.warn(format!(
                "vm_macaddr = {address} is not an address like 52:54:00:12:34:56, and the job will be held"
            ));
        }
    }
    if job.command("vm_no_output_vm", "")?.is_some() {
        let none = job.truth("vm_no_output_vm", "", false)?;
        job.put("VMPARAM_No_Output_VM", none);
    }
    if kind == "xen" {
        xen(job)?;
    }
    disks(job)
}

/// Whether the job is one of the VM universe.
#[must_use]
pub fn is_wanted(job: &Job<'_>) -> bool {
    job.integer("JobUniverse") == Some(job::VM)
}

/// The kind of virtual machine. HTCondor queues a job without one, or with one that nobody offers; no slot matches it.
fn kind(job: &mut Job<'_>) -> Result<String, ConfigError> {
    const HINT: &str = "set vm_type = kvm, or vm_type = xen";
    let given = match job.command("vm_type", "JobVMType")? {
        Some(text) => text.to_ascii_lowercase(),
        None => job.text("JobVMType").unwrap_or_default(),
    };
    let message = match given.as_str() {
        "kvm" | "xen" => {
            job.put_text("JobVMType", &given);
            return Ok(given);
        }
        "" => "vm_type cannot be found".to_owned(),
        "vmware" => "A vm_type of 'vmware' is no longer supported".to_owned(),
        other => format!("there is no vm_type '{other}'"),
    };
    Err(job.bad("vm_type", message, HINT))
}

/// Sets a truth value, false unless the command or the ad says otherwise.
fn told(job: &mut Job<'_>, command: &str, attribute: &str) -> Result<bool, ConfigError> {
    let otherwise = job.is_true(attribute);
    let value = job.truth(command, attribute, otherwise)?;
    job.put(attribute, value);
    Ok(value)
}

/// A machine with a network is not resumed elsewhere unless its owner says that this is meant.
fn transfers_at_eviction(job: &Job<'_>) -> Done {
    let when = job.command("WhenToTransferOutput", "when_to_transfer_output")?;
    let meant = when.is_some_and(|text| {
        ["ON_EXIT_OR_EVICT", "ALWAYS"]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(text.trim()))
    });
    if meant {
        return Ok(());
    }
    Err(job.bad(
        "vm_checkpoint",
        "You explicitly requested both VM checkpoint and VM networking. However, VM networking is currently conflict \
         with VM checkpoint",
        "if you still want to use both, define when_to_transfer_output = ON_EXIT_OR_EVICT",
    ))
}

/// Sets JobVMMemory, in MiB, and ExecutableSize: a suspended machine needs as much disk as it has memory.
fn memory(job: &mut Job<'_>) -> Done {
    if let Some(text) = job.command("vm_memory", "JobVMMemory")? {
        match units::size(&text, 1 << 20) {
            Some((size, _)) if size > 0 => job.put("JobVMMemory", size),
            _ => {
                return Err(job.bad(
                    "vm_memory",
                    format!("vm_memory = {text} is incorrectly specified"),
                    "for 128 MiB of memory, write 128",
                ));
            }
        }
    }
    let Some(size) = job.integer("JobVMMemory") else {
        return Err(job.bad(
            "vm_memory",
            "vm_memory cannot be found",
            "set vm_memory to the memory of the virtual machine, in MiB",
        ));
    };
    job.put("ExecutableSize", size.saturating_mul(1024));
    Ok(())
}

/// Sets JobVM_VCPUS: at least one, also from what is not a number.
fn vcpus(job: &mut Job<'_>) -> Done {
    match job.command("vm_vcpus", "JobVM_VCPUS")? {
        Some(text) => {
            let digits: String = text
                .trim()
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            job.put("JobVM_VCPUS", digits.parse().unwrap_or(1).max(1_i64));
        }
        None if job.has("JobVM_VCPUS") => {}
        None => job.put("JobVM_VCPUS", 1),
    }
    Ok(())
}

/// Whether a text is the address of an Ethernet interface, as `52:54:00:12:34:56`.
fn is_ethernet_address(text: &str) -> bool {
    let pairs: Vec<&str> = text.split(':').collect();
    pairs.len() == 6
        && pairs
            .iter()
            .all(|pair| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Sets VMPARAM_vm_Disk: FILE:DEVICE:PERMISSION[:FORMAT], separated by commas.
fn disks(job: &mut Job<'_>) -> Done {
    const HINT: &str =
        "write FILE:DEVICE:PERMISSION[:FORMAT], for example disk.img:vda:w,data.qcow2:vdb:r:qcow2";
    let Some(text) = job.command("vm_disk", "")? else {
        if job.has("VMPARAM_vm_Disk") {
            return Ok(());
        }
        return Err(job.bad("vm_disk", "vm_disk cannot be found", HINT));
    };
    let disks = job::comma_list(&text);
    let well_formed = disks
        .iter()
        .all(|disk| (3..=4).contains(&disk.split(':').count()));
    if disks.is_empty() || !well_formed {
        return Err(job.bad("vm_disk", "'vm_disk' has incorrect format", HINT));
    }
    job.put_text("VMPARAM_vm_Disk", &text);
    Ok(())
}

/// Sets what a Xen machine boots.
fn xen(job: &mut Job<'_>) -> Done {
    let kernel = match job.command("xen_kernel", "VMPARAM_Xen_Kernel")? {
        Some(kernel) => {
            job.put_text("VMPARAM_Xen_Kernel", &kernel);
            kernel
        }
        None => job.text("VMPARAM_Xen_Kernel").unwrap_or_default(),
    };
    if kernel.is_empty() {
        return Err(job.bad(
            "xen_kernel",
            "'xen_kernel' cannot be found",
            "set it to included, to vmx, or to the name of a file",
        ));
    }
    let hardware = kernel.eq_ignore_ascii_case("vmx");
    if hardware {
        job.put("JobVMHardwareVT", true);
    }
    let file = !hardware && !kernel.eq_ignore_ascii_case("included");
    if let Some(initrd) = job.command("xen_initrd", "")? {
        if !file {
            return Err(job.bad(
                "xen_initrd",
                "To use xen_initrd, xen_kernel should be a real kernel file",
                "name a file in xen_kernel, or drop xen_initrd",
            ));
        }
        job.put_text("VMPARAM_Xen_Initrd", &initrd);
    }
    if file {
        let Some(root) = job.command("xen_root", "")? else {
            return Err(job.bad(
                "xen_root",
                "'xen_root' cannot be found",
                "set it to the device of the root file system",
            ));
        };
        job.put_text("VMPARAM_Xen_Root", &root);
    }
    if let Some(parameters) = job.command("xen_kernel_params", "VMPARAM_Xen_Kernel_Params")? {
        job.put_text(
            "VMPARAM_Xen_Kernel_Params",
            parameters.trim_matches(['"', '\'']),
        );
    }
    Ok(())
}

/// What the slot must be: conditions that come before that on its disk.
pub fn platform(job: &Job<'_>, mentioned: &Mentioned, clauses: &mut Clauses) {
    if !mentioned.of_target("HasVM") {
        clauses.and("(TARGET.HasVM =?= true)");
    }
    if !mentioned.of_target("VM_Type") {
        clauses.and("(TARGET.VM_Type == MY.JobVMType)");
    }
    if !mentioned.of_target("VM_AvailNum") {
        clauses.and("(TARGET.VM_AvailNum > 0)");
    }
    if job.is_true("JobVMCheckpoint") && !mentioned.of_job("VM_CkptMac") {
        clauses.and(
            "((MY.VM_CkptMac =?= UNDEFINED) || (TARGET.VM_All_Guest_Macs =?= UNDEFINED) || \
             (stringListIMember(MY.VM_CkptMac, TARGET.VM_All_Guest_Macs, \",\") == FALSE))",
        );
    }
}

/// What the slot must have for the machine: memory and networking.
pub fn resources(job: &Job<'_>, mentioned: &Mentioned, clauses: &mut Clauses) {
    if job.text("JobVMType").as_deref() != Some("xen") {
        clauses.and("(TARGET.TotalMemory >= MY.JobVMMemory)");
    }
    if !mentioned.of_target("VM_Memory") {
        clauses.and("(TARGET.VM_Memory >= MY.JobVMMemory)");
    }
    if job.is_true("JobVMHardwareVT") && !mentioned.of_target("VM_HardwareVT") {
        clauses.and("TARGET.VM_HardwareVT");
    }
    if job.is_true("JobVMNetworking") {
        if !mentioned.of_target("VM_Networking") {
            clauses.and("TARGET.VM_Networking");
        }
        if job.has("JobVMNetworkingType") {
            clauses.and("stringListIMember(JobVMNetworkingType,TARGET.VM_Networking_Types,\",\")");
        }
    }
}
