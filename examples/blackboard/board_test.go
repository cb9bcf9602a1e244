package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestBoard: all writers see all lines in one order, whatever the network loses.
func TestBoard(t *testing.T) {
	for seed := range uint64(8) {
		writers := 1 + int(seed)%4
		sums, err := play(t, seed, writers, 50)
		if err != nil {
			t.Errorf("seed %d, %d writers: %v", seed, writers, err)
		}
		for writer, sum := range sums {
			if sum != sums[0] || sum == 0 {
				t.Errorf("seed %d: writer %d has seen lines of checksum %08x, writer 1 of %08x", seed, writer+1, sum, sums[0])
			}
		}
	}
}

// play has a board and its writers in the simulator, and returns what each writer has seen.
func play(t *testing.T, seed uint64, writers, lines int) ([]uint32, error) {
	w := sim.New(sim.Options{Seed: seed, Loss: 0.05, Reorder: 0.1})
	sums, errs := make([]uint32, writers), make([]error, writers+1)
	for rank := range writers + 1 {
		name := fmt.Sprint("rank", rank)
		link := w.Station(name)
		w.Go(name, func() {
			nic, err := vipl.Open(&vipl.Config{Link: link, Seed: seed*100 + uint64(rank) + 1})
			if err != nil {
				errs[rank] = err
				return
			}
			defer nic.Close()
			p, err := vmmc.Open(&vmmc.Config{NIC: nic, Process: uint32(rank)})
			if err != nil {
				errs[rank] = err
				return
			}
			defer p.Close()
			b := &board{p: p, writers: writers, lines: lines}
			if rank == 0 {
				err = b.keep(t.Context())
			} else {
				sums[rank-1], err = b.write(t.Context(), rank)
			}
			if err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	return sums, errors.Join(append(errs, w.Run())...)
}

// TestPlaces: no two lines and words share memory, and words are aligned.
func TestPlaces(t *testing.T) {
	b := &board{writers: 3, lines: 5}
	mem := make([]byte, b.seenAll(b.writers+1))
	take := func(at, n int) {
		t.Helper()
		if !bytes.Equal(mem[at:at+n], make([]byte, n)) {
			t.Errorf("%d bytes at %d are taken", n, at)
		}
		for i := range n {
			mem[at+i] = 1
		}
	}
	for writer := 1; writer <= b.writers; writer++ {
		for i := range b.lines {
			take(b.place(writer, i), lineSize)
		}
		take(b.seenAll(writer), vmmc.WordSize)
		vmmc.Word(mem, b.seenAll(writer))
	}
}
