package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// ring is one rank's place in the ring.
type ring struct {
	nic         *vipl.NIC
	job         string
	rank, ranks int
	size        int // bytes in a block

	left, right *vipl.VI // to the neighbours
	array       []byte   // a block for each rank; the left neighbour writes and reads it
	arrayMem    vipl.MemHandle
	copy        []byte // copy of the right neighbour's array
	copyMem     vipl.MemHandle
	note        []byte // for messages sent and received
	noteMem     vipl.MemHandle
	there       vipl.RemoteSegment // the right neighbour's array
}

// noteSize is the size of a message with the address and the handle of an array.
const noteSize = 12

func newRing(nic *vipl.NIC, job string, rank, ranks, size int) (*ring, error) {
	r := &ring{nic: nic, job: job, rank: rank, ranks: ranks, size: size}
	var err error
	alloc := func(n int, attr *vipl.MemAttributes) (buf []byte, mem vipl.MemHandle) {
		if err == nil {
			buf, mem, err = nic.AllocMem(n, attr)
		}
		return buf, mem
	}
	r.array, r.arrayMem = alloc(ranks*size, &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true})
	r.copy, r.copyMem = alloc(ranks*size, nil)
	r.note, r.noteMem = alloc(2*noteSize, nil)
	if err != nil {
		return nil, err
	}
	attr := *vipl.DefaultAttributes()
	attr.PeerTimeout = 2 * time.Second
	for _, vi := range []**vipl.VI{&r.left, &r.right} {
		if *vi, err = nic.CreateVI(&attr, nil, nil); err != nil {
			return nil, err
		}
	}
	fill(r.block(rank), rank)
	return r, nil
}

// block returns the part of the array for a rank.
func (r *ring) block(rank int) []byte { return r.array[rank*r.size : (rank+1)*r.size] }

// fill fills a rank's block.
func fill(b []byte, rank int) {
	rng := rand.New(rand.NewPCG(uint64(rank), 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// run runs all steps, and returns the times of the writes and of the read.
func (r *ring) run(ctx context.Context) (wrote, read time.Duration, err error) {
	if err := r.join(ctx); err != nil {
		return 0, 0, err
	}
	start := r.nic.Now()
	if err := r.gather(ctx); err != nil {
		return 0, 0, err
	}
	middle := r.nic.Now()
	// The array on the right is complete when its owner reports so. This rank may free its array
	// when the left neighbour has read it.
	if err := r.tell(ctx, r.left); err != nil {
		return 0, 0, err
	}
	if _, err := r.hear(ctx, r.right); err != nil {
		return 0, 0, err
	}
	begin := r.nic.Now()
	if err := r.fetch(ctx); err != nil {
		return 0, 0, err
	}
	end := r.nic.Now()
	if err := r.compare(); err != nil {
		return 0, 0, err
	}
	// The rank to the right may leave when it receives this, and its last acknowledgement may be
	// lost. So its end is not a failure.
	if err := r.tell(ctx, r.right); err != nil && r.right.Err() == nil {
		return 0, 0, err
	}
	if _, err := r.hear(ctx, r.left); err != nil {
		return 0, 0, err
	}
	return time.Duration(middle - start), time.Duration(end - begin), nil
}

// join connects this rank with its neighbours and gets the address of the array on the right. Rank
// 0 connects before it accepts, and the others after, so that no cycle of ranks waits for each
// other.
func (r *ring) join(ctx context.Context) error {
	listener, err := r.nic.Listen(0)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := r.nic.Advertise(r.name(r.rank), listener.Addr()); err != nil {
		return err
	}
	// Each block consumes a receive for its immediate data, and so does each message. They are
	// posted before anything can arrive.
	for range r.ranks {
		if err := r.left.PostRecv(&vipl.Descriptor{}); err != nil {
			return err
		}
	}
	for range 2 {
		if err := r.right.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: r.note[noteSize:], Handle: r.noteMem}}}); err != nil {
			return err
		}
	}
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return r.accept(ctx, listener) },
		r.connect,
	}
	if r.rank == 0 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := r.sayWhere(ctx); err != nil {
		return err
	}
	return r.learnWhere(ctx)
}

func (r *ring) name(rank int) string { return fmt.Sprintf("rdma/%s/%d", r.job, rank) }

func (r *ring) connect(ctx context.Context) error {
	addr, err := r.nic.Lookup(ctx, r.name((r.rank+1)%r.ranks))
	if err != nil {
		return err
	}
	return r.right.Connect(ctx, addr, nil)
}

func (r *ring) accept(ctx context.Context, listener *vipl.Listener) error {
	request, err := listener.Wait(ctx)
	if err != nil {
		return err
	}
	return request.Accept(ctx, r.left)
}

// sayWhere sends the array's address to the left neighbour.
func (r *ring) sayWhere(ctx context.Context) error {
	note := r.note[:noteSize]
	binary.BigEndian.PutUint64(note, vipl.VirtualAddress(r.array))
	binary.BigEndian.PutUint32(note[8:], uint32(r.arrayMem))
	return r.send(ctx, r.left, &vipl.Descriptor{Segs: []vipl.Segment{{Data: note, Handle: r.noteMem}}})
}

func (r *ring) learnWhere(ctx context.Context) error {
	d, err := r.hear(ctx, r.right)
	if err != nil {
		return err
	}
	if d.Length != noteSize {
		return fmt.Errorf("the rank to the right sent %d bytes, want the %d that say where its array is", d.Length, noteSize)
	}
	note := d.Segs[0].Data
	r.there = vipl.RemoteSegment{Addr: binary.BigEndian.Uint64(note), Handle: vipl.MemHandle(binary.BigEndian.Uint32(note[8:]))}
	return nil
}

// gather writes block after block into the array on the right: first this rank's own, then each
// block that has arrived from the left.
func (r *ring) gather(ctx context.Context) error {
	for step := range r.ranks - 1 {
		block := (r.rank - step + r.ranks) % r.ranks
		there := r.there
		there.Addr += uint64(block * r.size)
		err := r.send(ctx, r.right, &vipl.Descriptor{
			Op: vipl.OpRDMAWrite, Remote: there, HasImmediate: true, Immediate: uint32(block),
			Segs: []vipl.Segment{{Data: r.block(block), Handle: r.arrayMem}},
		})
		if err != nil {
			return err
		}
		d, err := r.hear(ctx, r.left)
		if err != nil {
			return err
		}
		if want := (block - 1 + r.ranks) % r.ranks; !d.HasImmediate || d.Immediate != uint32(want) {
			return fmt.Errorf("block %d came from the left (immediate data: %v), want block %d", d.Immediate, d.HasImmediate, want)
		}
	}
	return nil
}

// fetch reads the array on the right.
func (r *ring) fetch(ctx context.Context) error {
	return r.send(ctx, r.right, &vipl.Descriptor{
		Op: vipl.OpRDMARead, Remote: r.there,
		Segs: []vipl.Segment{{Data: r.copy[:len(r.array)], Handle: r.copyMem}},
	})
}

// compare compares the copy, and this rank's array, with the expected contents.
func (r *ring) compare() error {
	want := make([]byte, r.size)
	for rank := range r.ranks {
		fill(want, rank)
		if !bytes.Equal(r.block(rank), want) {
			return fmt.Errorf("block %d was written wrong", rank)
		}
	}
	if !bytes.Equal(r.copy[:len(r.array)], r.array) {
		return errors.New("the data read from the right neighbour differ from the local data")
	}
	return nil
}

// tell sends an empty message.
func (r *ring) tell(ctx context.Context, vi *vipl.VI) error {
	return r.send(ctx, vi, &vipl.Descriptor{})
}

// send posts a descriptor and waits until it is done.
func (r *ring) send(ctx context.Context, vi *vipl.VI, d *vipl.Descriptor) error {
	if err := vi.PostSend(d); err != nil {
		return err
	}
	_, err := vi.SendWait(ctx)
	return because(vi, err)
}

// hear waits for a message or immediate data.
func (r *ring) hear(ctx context.Context, vi *vipl.VI) (*vipl.Descriptor, error) {
	d, err := vi.RecvWait(ctx)
	return d, because(vi, err)
}

// because returns the cause of the connection's end, if there is one, instead of the error of a
// descriptor.
func because(vi *vipl.VI, err error) error {
	if err != nil {
		return cmp.Or(vi.Err(), err)
	}
	return nil
}
