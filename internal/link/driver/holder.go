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

// Holder says who has bound the Unix socket of an abstract name, which starts with an
// @: the process and its user, as far as the kernel tells. Of a listening socket it
// tells everybody; of others, it tells who has bound them only to root and to processes
// of the same user.
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
		uid = stat.Uid // who has it, and need not have made it
	}
	return process(pid, uid)
}

// searchTime bounds how long opener looks: the kernel has no list by which to find a socket's processes.
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

// listener asks a listening stream socket whose it is.
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

// opener returns the process that has a file of this name open, as far as it is found in time.
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
