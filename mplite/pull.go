package mplite

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// Pulled messages. Between two processes of one host, an RDMA write copies twice: into the shared ring
// and out of it. If the kernel permits it, the receiver of an announced message copies the payload itself, once,
// out of the sender's memory.
//
//	sender                              receiver
//	  | ready(size, sendID, offer) ------> |  matches
//	  |                                    |  reads the payload, and then the mark
//	  | <------------- taken(sendIDs)      |  done
//	done
//
// An offer names the payload's address, and a mark: a word of the request that holds a random value while the
// message is announced, and 0 as soon as the send ends for any reason. If the receiver finds that value after
// it has read the payload, then the payload had not changed until then, and the memory belonged to the right
// process. In every other case it clears the sender to write, as without an offer. So the sender exposes only
// the data that it sends. No process writes to the memory of another process. The receiver writes only to its
// own buffer, whose bounds it knows.
//
// The copy takes place without the mutex, in the goroutine that drives the protocol (advance). Meanwhile
// the request cannot be ended.

// offer is the body of a ready message of a rank on the receiver's host.
type offer struct {
	payload uint64 // address
	mark    uint64 // address
	value   uint64 // of the mark; 0: there is no offer
}

const offerSize = 24

func (o *offer) put(b []byte) {
	binary.LittleEndian.PutUint64(b, o.payload)
	binary.LittleEndian.PutUint64(b[8:], o.mark)
	binary.LittleEndian.PutUint64(b[16:], o.value)
}

// parse decodes the body of a ready message.
func (o *offer) parse(b []byte) {
	if *o = (offer{}); len(b) == offerSize {
		o.payload = binary.LittleEndian.Uint64(b)
		o.mark = binary.LittleEndian.Uint64(b[8:])
		o.value = binary.LittleEndian.Uint64(b[16:])
	}
}

// findReader finds the link through which this rank can read the memory of other ranks, if there is one.
func (w *world) findReader() {
	if link := seam.Link(w.nic); !link.Info().Virtual {
		w.reader, _ = transport.As[optional.MemoryReader](link)
	}
}

// meetNear finds out whether p, which is connected, is another process of this host.
func (p *peer) meetNear() {
	if at := p.VI.Remote(); p.w.reader != nil && at.MAC == p.w.nic.Addr().MAC {
		p.near = at.Port
	}
}

// offers returns the offer of r's message for p, whose body is in b; nil if p cannot read this rank's memory.
func (p *peer) offers(r *request, b *[offerSize]byte) []byte {
	if p.near == 0 {
		return nil
	}
	value := rand.Uint64() | 1
	r.mark.Store(value)
	o := offer{payload: vipl.VirtualAddress(r.buf), mark: addressOf(&r.mark), value: value}
	o.put(b[:])
	return b[:]
}

// pullLater queues r for the goroutine that drives the protocol, which copies the message from p. It reports
// false if that is not possible.
func (p *peer) pullLater(r *request, o offer) bool {
	w := p.w
	if p.near == 0 || p.unreadable || o.value == 0 {
		return false
	}
	r.state, r.peer, r.offer = recvPulling, p, o
	w.pulls.Push(r)
	w.notify()
	return true
}

// takenMost is the maximum number of messages that one taken message releases. It fits any
// receive buffer.
const takenMost = 16

// sayTaken releases the sends of messages that this rank has copied from p, as soon as there is a credit. The
// receives end with that: if the program had them earlier, it might never again call this package.
func (p *peer) sayTaken() {
	for p.taken.Len() > 0 && p.control > 1 && p.Room() && p.state < peerDead {
		var body [4 * takenMost]byte
		var ended [takenMost]*request
		n := min(p.taken.Len(), takenMost)
		for i := range n { // before post, which ends the queued receives if the connection has ended
			ended[i] = p.taken.Pop()
			binary.LittleEndian.PutUint32(body[4*i:], ended[i].remoteID)
		}
		p.control--
		p.post(&header{kind: kindTaken}, body[:4*n])
		for _, r := range ended[:n] {
			p.w.complete(r, nil)
		}
	}
}

// endTaken ends receives whose messages have been copied from p.
func (p *peer) endTaken(n int) {
	for range n {
		p.w.complete(p.taken.Pop(), nil)
	}
}

// released ends the sends whose messages p has copied.
func (p *peer) released(ids []byte) {
	for ; len(ids) > 0; ids = ids[4:] {
		p.w.endSend(p.find(binary.LittleEndian.Uint32(ids), sendReady))
	}
}

// pull copies the message of the first request that waits for that. It releases the mutex meanwhile.
func (w *world) pull() {
	r := w.pulls.Pop()
	p, buf := r.peer, r.buf[:r.accepted]
	w.mu.Unlock()
	mark, err := w.reader.ReadMemory(p.near, buf, r.offer.payload, r.offer.mark)
	w.mu.Lock()
	switch {
	case err == nil && mark == r.offer.value:
		w.putRight(buf, r.typ, r.flags, r.remoteSig)
		w.stats.BytesReceived += uint64(len(buf))
		w.stats.Pulled++
		r.state = recvPulled
		p.taken.Push(r)
		p.pump()
		if p.state >= peerDead {
			p.endTaken(p.taken.Len())
		}
	case p.state >= peerDead:
		w.complete(r, p.err)
	default:
		if err != nil {
			p.unreadable = true
			w.cfg.Logger.Debug("memory of a rank on this host cannot be read", "rank", p.rank, "err", err)
		}
		p.clear(r)
	}
	if p.leaving {
		p.left()
	}
}
