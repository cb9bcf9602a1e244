package driver

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

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
	if inode := inodeOf(name); inode != "" {
		if pid, uid, ok := opener(inode); ok {
			return process(pid, uid)
		}
	}
	return "another process"
}

func process(pid int, uid uint32) string {
	switch pid {
	case os.Getpid():
		return "this process"
	case 0: // of another pid namespace
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

// inodeOf returns the inode of the socket of a name, in the network namespace of the
// calling thread; "" if there is none.
func inodeOf(name string) string {
	table, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		const inode, path = 6, 7 // which columns
		if f := bytes.Fields(lines.Bytes()); len(f) > path && string(f[path]) == name {
			return string(f[inode])
		}
	}
	return ""
}

// opener returns the process that has the socket of an inode open, and its user.
func opener(inode string) (pid int, uid uint32, ok bool) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != "socket:["+inode+"]" {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		info, err := os.Stat(dir)
		if err != nil {
			continue // it has just ended
		}
		stat, is := info.Sys().(*syscall.Stat_t)
		if pid, err = strconv.Atoi(filepath.Base(dir)); err == nil && is {
			return pid, stat.Uid, true
		}
	}
	return 0, 0, false
}
