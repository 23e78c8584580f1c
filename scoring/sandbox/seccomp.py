"""The system calls that a container may make: what Python, NumPy and TensorFlow need, and no more.

The Docker engine's own profile lets a container open sockets of any family before version 23: AF_VSOCK reaches the
hypervisor, whatever network the container has. This profile names four families. It leaves out what no numerical
program needs and Docker lets through: ptrace, io_uring, other processes' memory, and what tells or chooses which pages
of a file are cached (mincore, preadv2, fadvise64, readahead), for runs share the image's files. Numbers and names are
those of the Linux manual (syscalls(2), socket(2), clone(2)). The kernel's 32-bit entry, which has another numbering, is
closed.
"""

import json
from typing import Any

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16  # between its own processes. There is no network to reach
NEW_NAMESPACES = 0x7E020000  # the flags of clone(2) that make namespaces
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, and asking which it is
ENOSYS = 38

FILES = """
access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fallocate fchdir
fchmod fchmodat fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync
ftruncate getcwd getdents getdents64 getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch lchown
lgetxattr link linkat listxattr llistxattr lremovexattr lseek lsetxattr lstat memfd_create mkdir mkdirat mknod mknodat
newfstatat open openat openat2 pread64 preadv pwrite64 pwritev read readlink readlinkat readv removexattr rename
renameat renameat2 rmdir sendfile setxattr splice stat statfs statx symlink symlinkat sync sync_file_range tee
truncate umask unlink unlinkat utime utimensat utimes vmsplice write writev ioctl
"""
MEMORY = """
brk get_mempolicy madvise mbind membarrier mlock mlock2 mlockall mmap mprotect mremap msync munlock munlockall munmap
pkey_alloc pkey_free pkey_mprotect remap_file_pages set_mempolicy shmat shmctl shmdt shmget
"""
PROCESSES = """
arch_prctl capget capset execve execveat exit exit_group fork futex futex_waitv get_robust_list get_thread_area getcpu
getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage
getsid gettid getuid ioprio_get ioprio_set kill pidfd_open pidfd_send_signal prctl prlimit64 restart_syscall rseq
rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp
set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setpgid setpriority setregid
setresgid setresuid setreuid setrlimit setsid setuid sigaltstack tgkill tkill vfork wait4 waitid
"""
WAITING = """
alarm clock_getres clock_gettime clock_nanosleep epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait
epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 getitimer gettimeofday mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd nanosleep pause pipe pipe2 poll ppoll pselect6
select semctl semget semop semtimedop setitimer signalfd signalfd4 time timer_create timer_delete timer_getoverrun
timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times
"""
SOCKETS = """
accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg
sendto setsockopt shutdown socketpair
"""
ABOUT = "getrandom sysinfo uname"


def profile() -> str:
    """Return the profile as the engine takes it: JSON, for `security_opt` `seccomp=`."""

    def allowed(names: list[str], *arguments: dict[str, Any]) -> dict[str, Any]:
        return {"names": names, "action": "SCMP_ACT_ALLOW", "args": list(arguments)}

    def equals(index: int, value: int) -> dict[str, Any]:
        return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}

    rules = [allowed(" ".join((FILES, MEMORY, PROCESSES, WAITING, SOCKETS, ABOUT)).split())]
    rules += [allowed(["socket"], equals(0, family)) for family in (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)]
    rules += [allowed(["personality"], equals(0, value)) for value in PERSONALITIES]
    no_namespace = {"index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    rules.append(allowed(["clone"], no_namespace))
    # Its flags lie in memory, where no filter sees them. The C library then takes clone.
    rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS})
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules})
