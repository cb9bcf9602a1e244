package mplite_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// readOwn reads memory of this process, in which all ranks of a test are, as a link reads that of another one.
func readOwn(dst []byte, from, mark uint64) (uint64, error) {
	var word [8]byte
	local := [2]unix.Iovec{{Base: &dst[0]}, {Base: &word[0]}}
	local[0].SetLen(len(dst))
	local[1].SetLen(len(word))
	remote := [2]unix.RemoteIovec{{Base: uintptr(from), Len: len(dst)}, {Base: uintptr(mark), Len: len(word)}}
	n, err := unix.ProcessVMReadv(os.Getpid(), local[:], remote[:], 0)
	if err == nil && n != len(dst)+len(word) {
		err = unix.EFAULT
	}
	return binary.NativeEndian.Uint64(word[:]), err
}

// needReadOwn skips a test if the kernel forbids what readOwn does.
func needReadOwn(t *testing.T) {
	t.Helper()
	b := make([]byte, 16)
	if _, err := readOwn(b, vipl.VirtualAddress(b), vipl.VirtualAddress(b)); err != nil {
		t.Skipf("process_vm_readv: %v", err)
	}
}

// pullJob runs fn on ranks that take each other for processes of one host.
func pullJob(size int, cfg mplite.Config, read func(dst []byte, from, mark uint64) (uint64, error), fn func(c *mplite.Comm) error) error {
	return runJob(size, sim.Options{}, cfg, func(c *mplite.Comm) error {
		mplite.SetMemory(c, read)
		return fn(c)
	})
}

// TestPulledCollectives compares everything that collectives do, with vectors beyond the eager size, with the naive
// results.
func TestPulledCollectives(t *testing.T) {
	needReadOwn(t)
	var pulled uint64
	for _, tc := range checks {
		for _, n := range []int{129, 3000, 20_000} {
			err := pullJob(4, small, readOwn, func(c *mplite.Comm) error {
				err := tc.run(c, n)
				pulled += c.Snapshot().Pulled
				return err
			})
			if err != nil {
				t.Errorf("%s of %d elements: %v", tc.name, n, err)
			}
		}
	}
	if pulled == 0 {
		t.Error("nothing was pulled")
	}
}

// TestPulled: messages that come before or after their receives, that are longer than these, or of another type.
func TestPulled(t *testing.T) {
	needReadOwn(t)
	const n = 100_000
	check(t, pullJob(2, mplite.Config{EagerSize: 1024, Credits: 8}, readOwn, func(c *mplite.Comm) error {
		if c.Rank() == 0 {
			for tag := range 20 {
				if err := c.Send(bg, content(n, uint64(tag)), 1, tag); err != nil {
					return err
				}
			}
			if err := c.Send(bg, content(n, 20), 1, 20); err != nil {
				return err
			}
			return mplite.Send(bg, c, make([]float64, n), 1, 21)
		}
		buf := make([]byte, n)
		for tag := range 20 {
			st, err := c.Recv(bg, buf, 0, tag)
			if err != nil || st.Count != n {
				return fmt.Errorf("%+v, %w", st, err)
			}
			if err := same(buf, uint64(tag)); err != nil {
				return err
			}
		}
		var short *mplite.TruncateError
		if _, err := c.Recv(bg, buf[:5000], 0, 20); !errors.As(err, &short) || short.Size != n {
			return fmt.Errorf("a short receive ended with %v", err)
		}
		if err := prefix(buf[:5000], n, 20); err != nil {
			return err
		}
		if _, err := mplite.Recv(bg, c, make([]int, n), 0, 21); !errors.Is(err, mplite.ErrType) {
			return fmt.Errorf("a receive of another type ended with %v", err)
		}
		if st := c.Snapshot(); st.Pulled != 21 || st.RendezvousReceived != 22 {
			return fmt.Errorf("%d of %d messages were pulled, want 21 of 22", st.Pulled, st.RendezvousReceived)
		}
		return nil
	}))
}

// prefix returns an error unless got is the beginning of message id, which has n bytes.
func prefix(got []byte, n int, id uint64) error {
	if string(got) != string(content(n, id)[:len(got)]) {
		return fmt.Errorf("the beginning of message %d is damaged", id)
	}
	return nil
}

// TestPulledWithoutCredits: a sender is released although its receiver had no credits left to say so when it had copied
// the message, and then never calls the package again.
func TestPulledWithoutCredits(t *testing.T) {
	needReadOwn(t)
	const messages = 60
	j := newJob(2, sim.Options{}, mplite.Config{EagerSize: 1024})
	released := false
	j.start(func(c *mplite.Comm) error {
		mplite.SetMemory(c, readOwn)
		reqs := make([]mplite.Request, messages)
		for i := range reqs {
			var err error
			if c.Rank() == 0 {
				reqs[i], err = c.Isend(make([]byte, 2000), 1, 0)
			} else {
				reqs[i], err = c.Irecv(make([]byte, 2000), 0, 0)
			}
			if err != nil {
				return err
			}
		}
		if err := mplite.Waitall(bg, reqs, nil); err != nil {
			return err
		}
		if c.Rank() == 0 {
			released = true
			return nil
		}
		return j.computes(c, func() bool { return released })
	})
	check(t, j.run())
}

// TestNotPulled: when the payload cannot be read, or is not the message's any more, the sender writes it.
func TestNotPulled(t *testing.T) {
	needReadOwn(t)
	const n = 50_000
	for _, tc := range []struct {
		name  string
		read  func(dst []byte, from, mark uint64) (uint64, error)
		tries int // of 5 messages
	}{
		{"the kernel forbids it", func([]byte, uint64, uint64) (uint64, error) { return 0, unix.EPERM }, 1},
		{"the sender has given a wrong address", func(dst []byte, _, mark uint64) (uint64, error) { return readOwn(dst, 8, mark) }, 1},
		{"the sender has given a wrong mark", func(dst []byte, from, _ uint64) (uint64, error) { return readOwn(dst, from, 8) }, 1},
		{"another process has the number", func(dst []byte, from, _ uint64) (uint64, error) {
			return readOwn(dst, from, from) // there is something else at the mark's address
		}, 5},
	} {
		tries := 0
		read := func(dst []byte, from, mark uint64) (uint64, error) {
			tries++
			return tc.read(dst, from, mark)
		}
		err := pullJob(2, mplite.Config{EagerSize: 1024}, read, func(c *mplite.Comm) error {
			for i := range uint64(5) {
				if c.Rank() == 0 {
					if err := c.Send(bg, content(n, i), 1, 0); err != nil {
						return err
					}
					continue
				}
				buf := make([]byte, n)
				if _, err := c.Recv(bg, buf, 0, 0); err != nil {
					return err
				}
				if err := same(buf, i); err != nil {
					return err
				}
			}
			if st := c.Snapshot(); st.Pulled != 0 {
				return fmt.Errorf("%d messages were pulled", st.Pulled)
			}
			return nil
		})
		if err != nil || tries != tc.tries {
			t.Errorf("%s: %d tries, want %d; %v", tc.name, tries, tc.tries, err)
		}
	}
}

// TestPulledWithdrawn: a send that ends while its message is copied has its buffer back at once. The receiver does not
// take what it has copied for the message.
func TestPulledWithdrawn(t *testing.T) {
	needReadOwn(t)
	var withdraw func()
	read := func(dst []byte, from, mark uint64) (uint64, error) {
		withdraw()
		return readOwn(dst, from, mark)
	}
	j := newJob(2, sim.Options{}, mplite.Config{EagerSize: 1024})
	over := false
	j.start(func(c *mplite.Comm) error {
		mplite.SetMemory(c, read)
		buf := make([]byte, 50_000)
		if c.Rank() == 0 {
			r, err := c.Isend(buf, 1, 0)
			if err != nil {
				return err
			}
			withdraw = func() {
				r.Cancel()
				clear(buf)
			}
			st, err := r.Wait(bg)
			if err != nil || !st.Canceled {
				return fmt.Errorf("the send ended with %+v, %w", st, err)
			}
			for !over { // until then this rank answers
				if _, _, err := c.Iprobe(1, 0); err != nil {
					return err
				}
				if err := j.Sleep(1e6); err != nil {
					return err
				}
			}
			return nil
		}
		_, err := c.Recv(bg, buf, 0, 0)
		if over = true; !errors.Is(err, mplite.ErrCanceled) {
			return fmt.Errorf("the receive ended with %v", err)
		}
		return nil
	})
	check(t, j.run())
}

// TestPulledFromTheDead: a sender that dies while its message is copied is a RankError, of a Recv and of every
// collective.
func TestPulledFromTheDead(t *testing.T) {
	needReadOwn(t)
	ops := map[string]func(c *mplite.Comm) error{"recv": func(c *mplite.Comm) error {
		buf := make([]byte, 50_000)
		if c.Rank() == victim {
			return c.Send(bg, buf, 0, 0)
		}
		if c.Rank() == 0 {
			_, err := c.Recv(bg, buf, victim, 0)
			return err
		}
		_, err := c.Recv(bg, buf, victim, 1)
		return err
	}}
	for _, tc := range checks[1:] { // not the barrier
		ops[tc.name] = func(c *mplite.Comm) error { return tc.run(c, 3000) }
	}
	for name, op := range ops {
		j := newJob(4, sim.Options{}, mplite.Config{EagerSize: 64})
		killed := false
		read := func(dst []byte, from, mark uint64) (uint64, error) {
			if !killed {
				killed = true
				j.Kill(j.stations[victim])
			}
			return 0, unix.ESRCH
		}
		j.start(func(c *mplite.Comm) error {
			mplite.SetMemory(c, read)
			if err := c.Barrier(bg); err != nil { // all have joined
				return err
			}
			err := op(c)
			for i := 0; err == nil && i < 3; i++ {
				err = op(c)
			}
			if c.Rank() == victim {
				return errKilled
			}
			if err := blames(name, err); err != nil {
				return err
			}
			j.computesFor(c, patience)
			return errKilled
		})
		if err := j.runKilled(); err != nil || !killed {
			t.Errorf("%s: killed %v, %v", name, killed, err)
		}
	}
}

// TestPulledFromClosed: the NIC is closed while a message is copied, so that its sender cannot be released. The receive has the message;
// nothing comes after it.
func TestPulledFromClosed(t *testing.T) {
	needReadOwn(t)
	const n = 50_000
	j := newJob(2, sim.Options{}, mplite.Config{EagerSize: 1024})
	over := false
	j.start(func(c *mplite.Comm) error {
		mplite.SetMemory(c, func(dst []byte, from, mark uint64) (uint64, error) {
			word, err := readOwn(dst, from, mark)
			c.NIC().Close()
			return word, err
		})
		if c.Rank() == 0 {
			r, err := c.Isend(content(n, 1), 1, 0)
			if err != nil {
				return err
			}
			if err := j.computes(c, func() bool { return over }); err != nil {
				return err
			}
			if _, err := r.Wait(bg); !errors.Is(err, mplite.ErrRankFailed) {
				return fmt.Errorf("the send ended with %v", err)
			}
			return errKilled
		}
		defer func() { over = true }()
		buf := make([]byte, n)
		if _, err := c.Recv(bg, buf, 0, 0); err != nil {
			return err
		}
		if err := same(buf, 1); err != nil {
			return err
		}
		if _, err := c.Recv(bg, buf, 0, 0); err == nil {
			return errors.New("a message came by a closed NIC")
		}
		return errKilled
	})
	check(t, j.runKilled())
}

// TestPulledLive: two NICs of one host take long messages from each other's process, which is this one.
func TestPulledLive(t *testing.T) {
	needReadOwn(t)
	var nics [2]*vipl.NIC
	for i := range nics {
		var err error
		nics[i], err = vipl.Open(t.Context(), &vipl.Config{Driver: "shm", EtherType: 0x88b5 ^ 0x40})
		check(t, err)
		t.Cleanup(func() { nics[i].Close() })
	}
	ranks := jobOn(t, nics, mplite.Config{})
	const n = 3 << 20
	both(t, func(rank int) error {
		out, in := content(n, uint64(rank)), make([]byte, n)
		if _, err := ranks[rank].Sendrecv(context.Background(), out, 1-rank, 0, in, 1-rank, 0); err != nil {
			return err
		}
		if st := ranks[rank].Snapshot(); st.Pulled != 1 {
			return fmt.Errorf("%d messages were pulled, want 1", st.Pulled)
		}
		return same(in, uint64(1-rank))
	})
}
