package keep

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Adopt makes this process the parent of the orphans among its descendants, in any session or
// process group.
func Adopt() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// KillLeft kills and reaps all descendants of this process. It returns when none is left, or after
// the time most, because some may belong to another user. The caller must ensure that no other code
// waits for a child.
func KillLeft(most time.Duration) {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(most); ; <-pause.C {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err == unix.ECHILD {
				return // without children there are no other descendants: no need to read all of /proc
			}
			if pid <= 0 && err != unix.EINTR {
				break
			}
		}
		if !KillDescendants() || time.Now().After(end) {
			return
		}
	}
}

// KillDescendants sends SIGKILL to all descendants of this process, and reports whether there
// were any.
func KillDescendants() bool {
	left := descendants(os.Getpid())
	for _, pid := range left {
		unix.Kill(pid, unix.SIGKILL)
	}
	return len(left) > 0
}

// descendants returns the children of a process, their children, and so on. It returns none if
// /proc belongs to another process namespace, as in a lab, because its process numbers differ.
func descendants(of int) (all []int) {
	if !ownProc() {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent := parentOf(e.Name()); parent > 0 {
			children[parent] = append(children[parent], pid)
		}
	}
	all = children[of]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// parentOf returns the parent of a process in /proc; 0 if it has ended.
func parentOf(pid string) int {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the process name before it may contain spaces
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// ownProc reports whether /proc shows the process numbers of this process's namespace.
func ownProc() bool {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(bytes.TrimSpace(line)) == strconv.Itoa(os.Getpid())
}

// ReapOrphans reaps the adopted processes that have ended, so that a rank that starts many
// processes does not use up the process numbers. own reports whether this process itself started a
// child; ReapOrphans does not reap such a child. Call it after SIGCHLD, and after each reaped child
// of this process.
func ReapOrphans(own func(pid int) bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		pid := childOf(&info)
		if err != nil || pid == 0 || own(pid) {
			return
		}
		unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}
