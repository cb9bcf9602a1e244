package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/vipl"
)

// send connects to the server, sends count numbers, checks the answers and returns the last one.
func send(ctx context.Context, nic *vipl.NIC, name string, rank, count int) (sum uint64, err error) {
	vi, err := nic.CreateVI(nil, nil, nil)
	if err != nil {
		return 0, err
	}
	out, err := slots(nic, depth)
	if err != nil {
		return 0, err
	}
	in, err := slots(nic, depth)
	if err != nil {
		return 0, err
	}
	for _, d := range in {
		if err := vi.PostRecv(d); err != nil {
			return 0, err
		}
	}
	server, err := nic.Lookup(ctx, name)
	if err == nil {
		err = vi.Connect(ctx, server, nil)
	}
	if err != nil {
		return 0, err
	}
	var want uint64
	for sent, got := 0, 0; got < count; got++ {
		for ; sent < count && sent-got < depth; sent++ {
			d := out[sent%depth]
			if sent >= depth { // the answer has arrived, so the peer has the number of this descriptor
				if _, err := vi.SendWait(ctx); err != nil {
					return 0, cmp.Or(vi.Err(), err)
				}
			}
			binary.BigEndian.PutUint64(d.Segs[0].Data, number(rank, sent))
			if err := vi.PostSend(d); err != nil {
				return 0, err
			}
		}
		d, err := vi.RecvWait(ctx)
		if err != nil {
			return 0, cmp.Or(vi.Err(), err)
		}
		want += number(rank, got)
		if sum = binary.BigEndian.Uint64(d.Segs[0].Data); sum != want {
			return 0, fmt.Errorf("answer %d: the sum is %d, want %d", got, sum, want)
		}
		if err := vi.PostRecv(d); err != nil {
			return 0, err
		}
	}
	return sum, vi.Disconnect()
}

// number returns the i-th number of a client.
func number(rank, i int) uint64 { return uint64(rank) * uint64(i+1) }
