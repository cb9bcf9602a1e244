package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"golang.org/x/sys/unix"
)

// setDeadline makes the running call end when ctx does.
func (r *rawConn) setDeadline(ctx context.Context) {
	left := sampleTimeout
	if t, ok := ctx.Deadline(); ok {
		left = time.Until(t)
	}
	r.deadline = r.link.Now() + int64(left)
}

// sendMessages sends n messages in batches of frames, as the window opens.
func (r *rawConn) sendMessages(n int) error {
	for n > 0 {
		room := min(r.window-(r.sent-r.peerGot), r.batch)
		if room == 0 {
			if err := r.progress(); err != nil {
				return err
			}
			continue
		}
		whole, err := r.sendBatch(int(room), n)
		if err != nil {
			return err
		}
		n -= whole
		if n > 0 && r.link.Ready() {
			if err := r.receive(); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendBatch sends up to room frames of up to n messages in one call and
// returns how many messages are now out as a whole.
func (r *rawConn) sendBatch(room, n int) (whole int, err error) {
	at, k, ends := r.tx, 0, 0
	for k < room && ends < n {
		part := at.next(r.room)
		r.build(k, part)
		if at.advance(len(part)) {
			ends++
		}
		k++
	}
	took, err := r.link.Send(r.frames[:k])
	if err != nil {
		return 0, fmt.Errorf("perf: raw send: %w", err)
	}
	r.sent += uint32(took)
	r.told = r.got // every frame says what has been received
	if took == k {
		r.tx = at
		return ends, nil
	}
	for range took { // the rest is built again
		part := r.tx.next(r.room)
		if r.tx.advance(len(part)) {
			whole++
		}
	}
	return whole, r.pause()
}

// pause gives a full queue of the network time to drain.
func (r *rawConn) pause() error {
	now := r.link.Now()
	if now >= r.deadline {
		return errLost
	}
	return r.link.Wait(now + int64(rawPause))
}

// build makes part the payload of the i-th frame of the batch.
func (r *rawConn) build(i int, part []byte) {
	head := r.heads[i]
	binary.BigEndian.PutUint32(head[rawSeq:], r.sent+uint32(i))
	binary.BigEndian.PutUint32(head[rawAck:], r.got)
	binary.BigEndian.PutUint16(head[rawSize:], uint16(len(part)))
	f := &r.frames[i]
	if len(part) <= rawInline {
		f.Head = head[:ethertype.HeaderSize+copy(head[ethertype.HeaderSize:], part)]
		f.Body = nil
		return
	}
	r.bodies[i][0] = part
	f.Head, f.Body = head[:ethertype.HeaderSize], r.bodies[i][:]
}

// recvMessages waits for n messages.
func (r *rawConn) recvMessages(n int) error {
	for r.arrived < n {
		if err := r.progress(); err != nil {
			return err
		}
	}
	r.arrived -= n
	return nil
}

// progress waits for frames, in the way of the case, and takes them. When none comes
// for rawQuiet, one has been lost. A spinning wait reads the clock only when it has
// taken long already, so that the floor does not pay for it.
func (r *rawConn) progress() error {
	if r.link.Ready() {
		return r.receive()
	}
	if !r.spin {
		end := r.patience()
		if err := r.link.Wait(end); err != nil {
			return fmt.Errorf("perf: raw wait: %w", err)
		}
		if r.link.Now() >= end {
			return errLost
		}
		return r.receive()
	}
	for spins, end := 1, int64(0); !r.link.Ready(); spins++ {
		if spins%rawSpins != 0 {
			continue
		}
		if end == 0 {
			end = r.patience()
		} else if r.link.Now() >= end {
			return errLost
		}
		schedYield() // the other half may want this core
	}
	return r.receive()
}

// patience returns until when a wait that begins now lasts.
func (r *rawConn) patience() int64 { return min(r.deadline, r.link.Now()+int64(rawQuiet)) }

// schedYield lets other threads have the core, if there are any.
func schedYield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// receive takes what has arrived, copies payloads to user memory and
// acknowledges every quarter of a window.
func (r *rawConn) receive() error {
	n, err := r.link.Recv(r.views[:])
	if err != nil {
		return fmt.Errorf("perf: raw receive: %w", err)
	}
	for _, view := range r.views[:n] {
		if err := r.take(view); err != nil {
			return err
		}
	}
	if r.got-r.told >= max(r.window/4, 1) {
		return r.sendAck()
	}
	return nil
}

func (r *rawConn) take(view []byte) error {
	r.peerGot = binary.BigEndian.Uint32(view[rawAck:])
	size := int(binary.BigEndian.Uint16(view[rawSize:]))
	if size == 0 {
		return nil
	}
	payload := view[ethertype.HeaderSize:]
	to := r.rx.next(r.room)
	if binary.BigEndian.Uint32(view[rawSeq:]) != r.got || size != len(to) || size > len(payload) {
		return errLost
	}
	copy(to, payload)
	r.got++
	if r.rx.advance(size) {
		r.arrived++
	}
	return nil
}

// sendAck tells the peer how many frames have arrived.
func (r *rawConn) sendAck() error {
	head := r.ack[0].Head
	binary.BigEndian.PutUint32(head[rawAck:], r.got)
	for {
		n, err := r.link.Send(r.ack[:])
		if err != nil {
			return fmt.Errorf("perf: raw acknowledgement: %w", err)
		}
		if n == 1 {
			r.told = r.got
			return nil
		}
		if err := r.pause(); err != nil {
			return err
		}
	}
}
