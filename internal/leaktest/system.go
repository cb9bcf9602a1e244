package leaktest

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// None waits until left, which returns the remaining resources of the kind what, returns nothing.
// Resources may disappear shortly after the process that has left them. It fails the test after 20
// seconds.
func None(t *testing.T, what string, left func() []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		list := left()
		if len(list) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s left:\n%s", what, strings.Join(list, "\n"))
		}
	}
}

// Namespaces returns everything by which this process, and the processes that it has started, hold
// one of the given namespaces: threads in the namespace, and its descriptors and mounts. A
// namespace is named as in the links of /proc, such as "net:[4026532000]". Other processes do not
// count, because the kernel reuses the number of a namespace that has ended.
func Namespaces(namespaces []string) (refs []string) {
	for _, pattern := range []string{
		"/proc/[0-9]*/task/[0-9]*/ns/net", "/proc/[0-9]*/ns/pid", "/proc/[0-9]*/fd/[0-9]*",
	} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if link, err := os.Readlink(path); err == nil && slices.Contains(namespaces, link) && ours(path) {
				refs = append(refs, path+" -> "+link)
			}
		}
	}
	mounts, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, path := range mounts {
		text, _ := os.ReadFile(path)
		for _, ns := range namespaces {
			if strings.Contains(string(text), ns) && ours(path) {
				refs = append(refs, path+" mounts "+ns)
			}
		}
	}
	return refs
}

// mark is a variable in the environment of the processes that this process starts, unless they get
// a different environment.
var mark = func() string {
	name, value := "BOBNET_LEAKTEST", rand.Text()
	os.Setenv(name, value)
	return name + "=" + value
}()

// ours reports whether a path under /proc belongs to this process, to a process that it has started
// directly or indirectly, or to a process that runs the same test binary.
func ours(path string) bool {
	pid := strings.Split(path, "/")[2]
	if pid == strconv.Itoa(os.Getpid()) {
		return true
	}
	if env, err := os.ReadFile("/proc/" + pid + "/environ"); err == nil && strings.Contains(string(env), mark) {
		return true
	}
	exe, err := os.Readlink("/proc/" + pid + "/exe")
	self, err2 := os.Readlink("/proc/self/exe")
	return err == nil && err2 == nil && exe == self
}
