package paper

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// viaHost is the process of a host, its VIs to the other host, and their completion queue.
// What its processor does takes time that it sleeps.
type viaHost struct {
	w     *sim.World
	card  *myrinet.Card
	wait  *sim.Waiter
	vis   []*viaVI
	queue [][]byte // completions of receives: the messages
	over  bool     // the process has done all that it was to do

	buffer []byte // in which a message comes
}

// viaVI is a VI: a doorbell for sends and one for receives, each a register that holds one
// token until the card has taken it.
type viaVI struct {
	descriptor    [viaDescriptor]byte
	sends         [][]byte
	send, receive *myrinet.Page
	sendRung      bool
	receiveRung   bool
}

// viaHead is the least of a message that names a VI.
const viaHead = 12

// take returns the message that was posted first.
func (v *viaVI) take() []byte {
	m := v.sends[0]
	v.sends = v.sends[1:]
	return m
}

// viaPair makes two hosts with so many VIs between them.
func viaPair(w *sim.World, m *viaModel, vis int) ([2]*viaHost, error) {
	var hosts [2]*viaHost
	var ports [2]*myrinet.Port
	f, err := myrinet.New(w, myrinet.Options{Seed: 1})
	if err != nil {
		return hosts, err
	}
	for i := range hosts {
		h := &viaHost{w: w, wait: w.Waiter()}
		hosts[i] = h
		if h.card, err = myrinet.NewCard(w, myrinet.CardConfig{Timing: m.timing, SRAM: 1 << 20}); err != nil {
			return hosts, err
		}
		ports[i] = f.Host(fmt.Sprint("host ", i), h.card)
		if err := h.card.Plug(ports[i]); err != nil {
			return hosts, err
		}
		for n := range vis {
			vi := new(viaVI)
			send, err := h.card.OpenPage(fmt.Sprint("sends of VI ", n))
			receive, err2 := h.card.OpenPage(fmt.Sprint("receives of VI ", n))
			if err := errors.Join(err, err2); err != nil {
				return hosts, err
			}
			vi.send, vi.receive = send, receive
			h.vis = append(h.vis, vi)
		}
	}
	if _, err := f.Join(ports[0], ports[1]); err != nil {
		return hosts, err
	}
	for _, h := range hosts {
		if err := h.card.Load(&viaProgram{host: h, costs: m.costs}); err != nil {
			return hosts, err
		}
	}
	return hosts, nil
}

// answer takes the token of a doorbell.
func (h *viaHost) answer(page *myrinet.Page) (vi *viaVI, isSend bool) {
	h.wait.Wake()
	for _, vi := range h.vis {
		switch page {
		case vi.send:
			vi.sendRung = false
			return vi, true
		case vi.receive:
			vi.receiveRung = false
			return vi, false
		}
	}
	panic("paper: a doorbell of no VI")
}

// complete makes an entry in the completion queue.
func (h *viaHost) complete() {
	h.queue = append(h.queue, append([]byte(nil), h.buffer...))
	h.wait.Wake()
}

// works has the processor be busy, and pays what access to the card has cost it.
func (h *viaHost) works(d time.Duration) error {
	if d += time.Duration(h.card.TakeDebt()); d == 0 {
		return nil
	}
	return h.w.Sleep(d)
}

// sleep waits until the card has done something.
func (h *viaHost) sleep() error { return h.wait.Wait(transport.Forever) }

// post posts a send. It waits until the card has taken the token before.
func (h *viaHost) post(vi int, m []byte) error {
	v := h.vis[vi]
	for v.sendRung {
		if err := h.sleep(); err != nil {
			return err
		}
	}
	v.sends = append(v.sends, m)
	v.sendRung = true
	v.send.Ring()
	return h.works(0)
}

// repost posts a receive again, in the same way.
func (h *viaHost) repost(vi int) error {
	v := h.vis[vi]
	for v.receiveRung {
		if err := h.sleep(); err != nil {
			return err
		}
	}
	v.receiveRung = true
	v.receive.Ring()
	return h.works(0)
}
