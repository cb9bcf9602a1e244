package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/internal/runsocket"
	"golang.org/x/sys/unix"
)

// Holder describes the process and user that have bound the Unix socket of an abstract name, which
// starts with an @, as far as the kernel reports it. For a listening socket it reports it to every
// process, for others only to root and processes of the same user.
func Holder(name string) string {
	if cred, ok := listener(name); ok {
		return process(int(cred.Pid), cred.Uid)
	}
	inode, uid, found := runsocket.SocketOf(name)
	if !found {
		return "another process"
	}
	pid, _ := opener(fmt.Sprintf("socket:[%d]", inode), time.Now().Add(searchTime))
	var stat unix.Stat_t
	if pid > 0 && unix.Stat(fmt.Sprintf("/proc/%d", pid), &stat) == nil {
		uid = stat.Uid // of the current owner, which may differ from the creator
	}
	return process(pid, uid)
}

// searchTime bounds the search of opener: the kernel has no index from sockets to processes.
const searchTime = 200 * time.Millisecond

func process(pid int, uid uint32) string {
	switch pid {
	case os.Getpid():
		return "this process"
	case 0: // of another pid namespace, or not found
		return fmt.Sprintf("a process of user %d", uid)
	}
	return fmt.Sprintf("process %d of user %d", pid, uid)
}

// listener asks the kernel for the owner of a listening stream socket.
func listener(name string) (*unix.Ucred, bool) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: name}) != nil {
		return nil, false
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return cred, err == nil
}

// opener returns a process that has a file of this name open, if it finds one in time.
func opener(name string, end time.Time) (pid int, ok bool) {
	all, _ := os.ReadDir("/proc")
	for _, dir := range all {
		if time.Now().After(end) {
			break
		}
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		files, _ := os.ReadDir(filepath.Join("/proc", dir.Name(), "fd"))
		for _, f := range files {
			if to, err := os.Readlink(filepath.Join("/proc", dir.Name(), "fd", f.Name())); err == nil && to == name {
				return pid, true
			}
		}
	}
	return 0, false
}
