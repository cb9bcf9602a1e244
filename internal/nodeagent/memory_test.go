package nodeagent

import (
	"encoding/binary"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
)

// tellers is how many programs tell in the tests of memory, as many as a user may connect.
const tellers = 4 * DefaultMaxBlocks

// tell connects programs that tell, and say nothing.
func tell(t *testing.T, path string) (all []*net.UnixConn) {
	t.Helper()
	for range tellers {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		if err := agent.Write(c, &agent.Request{Version: agent.Version, Tells: true}); err != nil {
			t.Fatal(err)
		}
		var r agent.Reply
		if _, err := agent.Read(c, &r, agent.MaxRequest); err != nil || r.Refusal != "" {
			t.Fatalf("%+v, %v", r, err)
		}
		all = append(all, c)
	}
	return all
}

// begun is the beginning of a message, of which many more octets are announced than come.
func begun(announced, come int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(announced)), make([]byte, come)...)
}

// memory returns the octets that this process has made room for, all told and those in use.
func memory() (all, used uint64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.TotalAlloc, m.HeapAlloc
}

// awaitLeft waits until no program is connected any more.
func awaitLeft(t *testing.T, s *Server) {
	t.Helper()
	for end := time.Now().Add(patience); len(s.Programs()) > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d programs are connected still", len(s.Programs()))
		}
	}
}

// memoryServer is a server that lets everybody in.
func memoryServer(t *testing.T) (*Server, string) {
	path := filepath.Join(t.TempDir(), "sock")
	return serving(t, Config{Path: path, Policy: func() (Policy, error) { return Policy{all: true}, nil }}), path
}

// TestUnaskedMemory: programs that announce the longest messages, which nobody has asked for and
// which do not come, take no memory, and are shut out at once.
func TestUnaskedMemory(t *testing.T) {
	s, path := memoryServer(t)
	conns := tell(t, path)
	before, _ := memory()
	for _, c := range conns {
		if _, err := c.Write(begun(agent.MaxAnswer, 0)); err != nil {
			t.Fatal(err)
		}
	}
	awaitLeft(t, s)
	if after, _ := memory(); after-before > tellers*16<<10 {
		t.Errorf("%d announced messages have taken %d octets", tellers, after-before)
	}
}

// TestAskedMemory: programs that are asked, announce long answers and do not send them, or not to
// their ends, take little memory, and are shut out when their time is over.
func TestAskedMemory(t *testing.T) {
	for name, come := range map[string]int{"nothing comes": 0, "half of it comes": agent.MaxText / 2} {
		t.Run(name, func(t *testing.T) {
			s, path := memoryServer(t)
			conns := tell(t, path)
			_, before := memory()
			var wg sync.WaitGroup
			for _, p := range s.Programs() {
				wg.Go(func() { p.Ask(agent.Metrics) })
			}
			octets := begun(agent.MaxText, come)
			for _, c := range conns {
				c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // what fits the socket
				c.Write(octets)
			}
			wg.Wait()
			if _, after := memory(); after > before+4<<20 {
				t.Errorf("%d answers that have begun take %d octets", tellers, after-before)
			}
			for _, c := range conns {
				c.CloseWrite()
			}
			awaitLeft(t, s)
		})
	}
}

// TestSlowAnswer: an answer that has begun is waited for for a while, and no longer.
func TestSlowAnswer(t *testing.T) {
	s, path := memoryServer(t)
	c := tell(t, path)[0]
	var wg sync.WaitGroup
	for _, p := range s.Programs() {
		wg.Go(func() { p.Ask(agent.Metrics) })
	}
	wg.Wait()
	if _, err := c.Write(begun(1, 0)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); len(s.Programs()) == tellers; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a program that does not go on with its answer is connected still")
		}
	}
}
