package job_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestHostile: a rank that sends what no rank may is a failure with a reason, and
// ends nothing else.
func TestHostile(t *testing.T) {
	id := job.Identity{Job: "test", Rank: 1, Size: 2, Version: 2}
	hello := func(id job.Identity) string {
		var b [joining.HelloSize]byte
		h := id.Hello([2]uint32{})
		h.Put(b[:])
		return "h" + string(b[:])
	}
	other, run := id, id
	other.Rank = 0
	run.Nonce = 99
	for name, tc := range map[string]struct {
		says  []string
		words string
	}{
		"nothing":       {[]string{""}, "a malformed message"},
		"unknown kind":  {[]string{"?"}, "a malformed message"},
		"short hello":   {[]string{"h123"}, "wire version 0"},
		"other's hello": {[]string{hello(other)}, "a malformed message"},
		"other run":     {[]string{hello(run)}, "another run of job"},
		"no report":     {[]string{"rfail 7 why"}, "a malformed message"},
		"false death":   {[]string{"rfail 0 why not"}, "it considers rank 0 dead: why not"},
		"own end":       {[]string{"rfail 1 no time"}, "rank 1 failed: no time"},
		"many":          {[]string{"h", "h", "h", "h", "h"}, "rank 1 failed"},
	} {
		w := newWorld(2, sim.Options{})
		w.fails("rank 0", 0, 0, func(err error) error { return hasFailed(err, 1, tc.words) })
		w.host("hostile", 0, func(nic *vipl.NIC) error { return says(nic, hello(id)[1:], tc.says) })
		if err := w.run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// says connects with rank 0 by a hello and sends messages.
func says(nic *vipl.NIC, hello string, messages []string) error {
	addr, err := nic.Lookup(bg, "job/test/0")
	if err != nil {
		return err
	}
	vi, err := nic.CreateVI(nil, nil, nil)
	if err != nil {
		return err
	}
	mem := make([]byte, 512)
	handle, err := nic.RegisterMem(mem, nil)
	if err != nil {
		return err
	}
	for i := range 2 { // what rank 0 says
		if err := vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: mem[256*i:][:256], Handle: handle}}}); err != nil {
			return err
		}
	}
	if err := vi.Connect(bg, addr, []byte(hello)); err != nil {
		return err
	}
	return sendAll(nic, vi, messages)
}

// sendAll sends messages, one after the other, until the connection breaks.
func sendAll(nic *vipl.NIC, vi *vipl.VI, messages []string) error {
	mem := make([]byte, 256)
	handle, err := nic.RegisterMem(mem, nil)
	if err != nil {
		return err
	}
	for _, m := range messages {
		d := vipl.Descriptor{Segs: []vipl.Segment{{Data: mem[:copy(mem, m)], Handle: handle}}}
		if vi.PostSend(&d) != nil {
			return nil
		}
		if _, err := vi.SendWait(bg); err != nil {
			return nil
		}
	}
	return nil
}
