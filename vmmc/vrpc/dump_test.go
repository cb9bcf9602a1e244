package vrpc_test

import (
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// TestDump: what became of calls is in the text of a snapshot.
func TestDump(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	text := func() string {
		var b strings.Builder
		s.Snapshot().WriteTo(&b)
		return b.String()
	}
	if got := text(); !strings.Contains(got, "nothing has come") {
		t.Errorf("before any call:\n%s", got)
	}
	c := newDirect(t, s, nil)
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Program(testProg, 99).Ping(t.Context()); err == nil {
		t.Error("a version that is not there answers")
	}
	got := text()
	for _, want := range []string{"RPC server  0 connections open\n  no version 1\n", "PROGRAM", "SYSTEM ERROR"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
