package test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// What a killed rank, and its job, must not leave.

// forgotten wants that the killed rank's ports can be had again, and that nobody
// keeps memory that it shared, while the others live.
func (j *killJob) forgotten(t *testing.T) {
	t.Helper()
	leaktest.None(t, "memory shared with the killed rank", func() (left []string) {
		for rank, p := range j.ranks {
			if kept := j.kept(p); rank != killed && len(kept) > 0 {
				left = append(left, fmt.Sprintf("rank %d maps %v", rank, kept))
			}
		}
		return left
	})
	err := j.lab.Exec(killed%j.way.hosts, func() error {
		cfg := killNIC(j.way.driver)
		cfg.Ports = j.ports
		nic, err := vipl.Open(t.Context(), cfg)
		if err != nil {
			return err
		}
		return nic.Close()
	})
	if err != nil {
		t.Errorf("another NIC with the ports of the killed rank: %v", err)
	}
}

// end lets the survivors go, which must succeed, and wants that they leave no
// socket.
func (j *killJob) end(t *testing.T) {
	t.Helper()
	for rank, p := range j.ranks {
		if rank != killed {
			p.Signal(unix.SIGUSR1)
		}
	}
	for rank, p := range j.ranks {
		if rank != killed {
			p.end(t)
		}
	}
	for host := range j.way.hosts {
		leaktest.None(t, "sockets", func() (left []string) {
			if err := j.lab.Exec(host, func() error {
				left = sockets()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return left
		})
	}
}

// sockets returns those of the calling thread's network namespace that Bobnet's
// links are made of.
func sockets() (list []string) {
	for _, kind := range []string{"packet", "udp", "unix"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + kind)
		if err != nil {
			list = append(list, err.Error())
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for _, line := range lines[1:] { // the first is the head
			list = append(list, kind+": "+line)
		}
	}
	return list
}

// closed closes the lab and returns what its network namespaces were.
func (j *killJob) closed(t *testing.T) (namespaces []string) {
	t.Helper()
	for host := range j.way.hosts {
		if err := j.lab.Exec(host, func() error {
			name, err := os.Readlink("/proc/thread-self/ns/net")
			namespaces = append(namespaces, name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.lab.Close(); err != nil {
		t.Error(err)
	}
	return namespaces
}

// kept returns what p maps of the memory that the killed rank shared.
func (j *killJob) kept(p *player) []string {
	return slices.DeleteFunc(sharedMemory(p), func(inode string) bool { return !slices.Contains(j.shared, inode) })
}

// stillMapped returns which processes of this machine map some of this memory.
func stillMapped(shared []string) (left []string) {
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		for _, inode := range sharedBy(pid) {
			if slices.Contains(shared, inode) {
				left = append(left, fmt.Sprintf("process %d maps %s", pid, inode))
			}
		}
	}
	return left
}

// sharedMemory returns what p maps of the memory that links share, by inode:
// nothing when it has ended.
func sharedMemory(p *player) (inodes []string) { return sharedBy(p.Pid()) }

// sharedBy is sharedMemory of any process of this machine.
func sharedBy(pid int) (inodes []string) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 5 && strings.HasPrefix(f[5], "/memfd:bobnet") {
			inodes = append(inodes, f[4])
		}
	}
	return slices.Compact(inodes)
}
