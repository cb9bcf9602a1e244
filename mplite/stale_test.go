package mplite_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
)

// TestStaleRequest: a request that has been waited for or freed gets ErrRequest from
// every call, and takes nothing from the operation that uses its memory meanwhile.
func TestStaleRequest(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	waited, err := c.Irecv(make([]byte, 1), 0, 1)
	check(t, err)
	check(t, c.Send(bg, []byte("a"), 0, 1))
	if _, err := waited.Wait(bg); err != nil {
		t.Fatal(err)
	}
	freed, err := c.Isend([]byte("b"), 0, 2)
	check(t, err)
	check(t, freed.Free())
	buf := make([]byte, 1)
	next, err := c.Irecv(buf, 0, 1)
	check(t, err)
	if n := mplite.Requests(c); n != 2 { // one more for c.Send
		t.Fatalf("%d requests, so none has been used again", n)
	}
	misuse := func() {
		t.Helper()
		for what, r := range map[string]mplite.Request{"waited for": waited, "freed": freed} {
			for name, err := range calls(r) {
				if !errors.Is(err, mplite.ErrRequest) {
					t.Errorf("%s with a request that was %s: %v, want ErrRequest", name, what, err)
				}
			}
			r.Cancel()
		}
	}
	misuse()
	check(t, c.Send(bg, []byte("c"), 0, 1))
	misuse()
	if st, err := next.Wait(bg); err != nil || st != (mplite.Status{Tag: 1, Count: 1}) || buf[0] != 'c' {
		t.Errorf("the live request: %+v, %v, %q", st, err, buf)
	}
	if _, err := c.Recv(bg, buf, 0, 2); err != nil || buf[0] != 'b' {
		t.Errorf("what the freed request sent: %q, %v", buf, err)
	}
	check(t, c.Finalize(bg))
}

// calls makes every call with r that may report its end.
func calls(r mplite.Request) map[string]error {
	ctx, one := canceled(), func() []mplite.Request { return []mplite.Request{{}, r} }
	indices := make([]int, 2)
	_, wait := r.Wait(ctx)
	_, _, test := r.Test()
	_, testall := mplite.Testall(one(), nil)
	_, _, waitany := mplite.Waitany(ctx, one())
	_, _, _, testany := mplite.Testany(one())
	_, waitsome := mplite.Waitsome(ctx, one(), indices, nil)
	_, testsome := mplite.Testsome(one(), indices, nil)
	return map[string]error{
		"Wait": wait, "Test": test, "Testall": testall, "Waitany": waitany, "Testany": testany, "Waitsome": waitsome, "Testsome": testsome,
		"Waitall": mplite.Waitall(ctx, one(), nil), "Start": r.Start(), "Free": r.Free(),
	}
}

// TestStaleWhileWaiting: of two goroutines that wait for one request one gets its
// completion and the other ErrRequest, also when the request is used again at once.
func TestStaleWhileWaiting(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	r, err := c.Irecv(make([]byte, 1), 0, 1)
	check(t, err)
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	for range 2 {
		go func() {
			_, err := r.Wait(ctx)
			if err == nil {
				_, err = c.Irecv(make([]byte, 1), 0, 2) // takes the memory of r
			}
			ended <- err
		}()
	}
	for c.Pending().Following < 2 {
		runtime.Gosched()
	}
	check(t, c.Send(bg, []byte("a"), 0, 1))
	first, second := <-ended, <-ended
	if first != nil {
		first, second = second, first
	}
	if first != nil || !errors.Is(second, mplite.ErrRequest) {
		t.Errorf("the two waits ended with %v and %v", first, second)
	}
	check(t, c.Finalize(bg))
}
