package msg

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
)

// echo answers procedures with their arguments.
type echo struct{ controls int }

func (e *echo) Call(_ int, _ uint32, args, result []byte) int { return copy(result, args) }
func (e *echo) Control(int, []byte)                           { e.controls++ }

// FuzzServe: whatever a rank sends as a request, nothing outside the heap is touched, the
// reply fits, and its number is the request's.
func FuzzServe(f *testing.F) {
	f.Add([]byte{Get, 0, 7, 0, 16, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0}, true)
	f.Add([]byte{Put, 0, 1, 2, 255, 15, 0, 0, 0, 0, 0, 0, 1}, true)
	f.Add([]byte{Store, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 9, 9}, false)
	f.Add([]byte{Stores, 0, 0, 0, 255, 15, 0, 0, 0, 0, 0, 1, 7, 8, 0, 0, 0, 0, 0, 0, 2, 1, 2}, true)
	f.Add([]byte{Call, 0, 3, 0, 1, 0, 0, 0, 'x'}, false)
	f.Add([]byte{Control, 0, 0, 0, 'x'}, false)
	f.Fuzz(func(t *testing.T, m []byte, short bool) {
		channel := Medium
		if short {
			channel = Short
		}
		m = m[:min(len(m), Size(channel))]
		all := bytes.Repeat([]byte{0xa5}, 3*4096)
		l := Layer{Base: mesh.Base{Config: layer.Config{Handler: new(echo)}, Memory: all[4096:8192:8192]}}
		reply := make([]byte, Size(channel))
		n, ok := l.Serve(1, channel, m, reply)
		if outside := append(bytes.Clone(all[:4096]), all[8192:]...); len(bytes.Trim(outside, "\xa5")) != 0 {
			t.Fatal("memory outside of the heap is written")
		}
		if n > 0 && (!ok || n < HeaderSize || !IsReply(reply[0]) || !bytes.Equal(reply[2:HeaderSize], m[2:HeaderSize])) {
			t.Fatalf("a reply of %d bytes, kind %d, to request % x", n, reply[0], m)
		}
	})
}

// TestReplied: a reply is taken once, by the operation that waits for it, and only if it
// is one that the operation can have.
func TestReplied(t *testing.T) {
	dst := make([]byte, 8)
	for _, c := range []struct {
		name  string
		kind  byte
		m     []byte
		taken bool
	}{
		{"Got", Get, []byte{Got, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, true},
		{"Short", Get, []byte{Got, 0, 0, 0, 1, 2}, false},
		{"OtherKind", Get, []byte{PutDone, 0, 0, 0}, false},
		{"OtherNumber", Get, []byte{Got, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8}, false},
		{"NoNumber", Get, []byte{Got, 0, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8}, false},
		{"PutDone", Put, []byte{PutDone, 0, 0, 0}, true},
		{"Result", Call, []byte{Result, 0, 0, 0, 1}, true},
		{"LongResult", Call, []byte{Result, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, false},
		{"RefusedCall", Call, []byte{Refused, 0, 0, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Layer
			to := Channel{Pending: NewPending(2)}
			to.Pending.free = []uint16{1, 0}
			to.Pending.begin(c.kind, dst)
			l.Count.Outstanding = 1
			if ok := l.Replied(&to, c.m); ok != c.taken || to.Pending.Any() == c.taken {
				t.Fatalf("taken: %v, want %v", ok, c.taken)
			}
			if l.Replied(&to, c.m) {
				t.Fatal("a reply is taken twice")
			}
		})
	}
}
