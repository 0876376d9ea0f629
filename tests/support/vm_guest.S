/*
 * The guest of vm_guest.py.
 *
 *   as -o vm_guest.o vm_guest.S && ld -m elf_x86_64 -Ttext 0 --oformat binary -o vm_guest.bin vm_guest.o
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
    sti
    movb %dl, drive - _start + 0x7c00
    movb $2, %ah                /* read the second sector */
    call disk
    incl 0x8000                 /* one boot more */
    movw $0x510, %dx            /* the number of cores, as the emulator's firmware interface (fw_cfg) has it */
    movw $5, %ax
    outw %ax, %dx
    incw %dx
    inb %dx, %al
    movb %al, 0x800c
    movl $0, 0x8004
    movl $0x4e555220, 0x8008    /* " RUN" */
    call write
    testb $1, mode - _start + 0x7c00
    jz off
    movw $0x602, %dx            /* listen to the power button */
    movw $0x100, %ax
    outw %ax, %dx
    movl 0x46c, %ebx
wait:
    hlt
    movl 0x46c, %eax
    cmpl %eax, %ebx
    je wait
    movl %eax, %ebx
    incl 0x8004                 /* one tick more (18 a second) */
    pushl %ebx
    call write
    popl %ebx
    testb $2, mode - _start + 0x7c00
    jnz deaf
    movw $0x600, %dx
    inw %dx, %ax
    testb $1, %ah
    jz deaf
    movl $0x4e545542, 0x8008    /* "BUTN" */
    jmp last
deaf:
    movl 0x8004, %eax
    cmpl ticks - _start + 0x7c00, %eax
    jb wait
off:
    movl $0x454e4f44, 0x8008    /* "DONE" */
last:
    call write
    movw $0x604, %dx
    movw $0x2000, %ax
    outw %ax, %dx
1:  hlt
    jmp 1b
write:
    movb $3, %ah
disk:
    movb $1, %al
    movw $2, %cx
    movb $0, %dh
    movb drive - _start + 0x7c00, %dl
    movw $0x8000, %bx
    int $0x13
    ret
drive: .byte 0
    .org 0x1f0
mode: .byte 0
    .org 0x1f4
ticks: .long 0
    .org 510
    .word 0xaa55
