package leaktest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// None waits until left returns nothing, which is what there still is of what;
// what processes leave ends a moment after them. It fails the test after 20
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

// Namespaces returns everything on the host that holds one of the namespaces,
// which are named as links under /proc show them, "net:[4026532000]": threads
// that live in it, and descriptors and mounts of it.
func Namespaces(namespaces []string) (refs []string) {
	for _, pattern := range []string{
		"/proc/[0-9]*/task/[0-9]*/ns/net", "/proc/[0-9]*/ns/pid", "/proc/[0-9]*/fd/[0-9]*",
	} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if link, err := os.Readlink(path); err == nil && slices.Contains(namespaces, link) {
				refs = append(refs, path+" -> "+link)
			}
		}
	}
	mounts, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, path := range mounts {
		text, _ := os.ReadFile(path)
		for _, ns := range namespaces {
			if strings.Contains(string(text), ns) {
				refs = append(refs, path+" mounts "+ns)
			}
		}
	}
	return refs
}
