/*
 * The machine of the probe: proves that a host really runs 64-bit code. It enters long mode, reads memory ten million
 * times and powers itself off. A quarter of a second in emulation; a host whose KVM only interprets takes minutes.
 *
 *   as -o probe_guest.o probe_guest.S && ld -m elf_x86_64 -Ttext 0 --oformat binary -o probe_guest.bin probe_guest.o
 */
    .code16
    .globl _start
_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x7c00, %sp
    cld
    movw $0x1000, %di          /* page tables: one page of 2 MiB */
    movw $0xc00, %cx
    xorl %eax, %eax
    rep stosl
    movw $0x2003, 0x1000
    movw $0x3003, 0x2000
    movw $0x0083, 0x3000
    movl $0x1000, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orb $0x20, %al
    movl %eax, %cr4
    movl $0xc0000080, %ecx
    rdmsr
    orb $1, %ah
    wrmsr
    lgdt gdt_pointer - _start + 0x7c00
    movl %cr0, %eax
    orl $0x80000001, %eax
    movl %eax, %cr0
    .byte 0xea                  /* ljmp $8, $long_mode */
    .word long_mode - _start + 0x7c00
    .word 8
    .code64
long_mode:
    movl $10000000, %ecx
    movl $0x1000, %ebx
1:  addq (%rbx), %rax
    decl %ecx
    jnz 1b
    movw $0x604, %dx            /* power off: SLP_EN of the ACPI controller */
    movw $0x2000, %ax
    outw %ax, %dx
2:  hlt
    jmp 2b
    .balign 8
gdt:
    .quad 0
    .quad 0x00209a0000000000    /* 64-bit code */
gdt_pointer:
    .word 15
    .long gdt - _start + 0x7c00
    .org 510
    .word 0xaa55
