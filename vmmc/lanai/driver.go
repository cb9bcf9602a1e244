package lanai

import "github.com/bobnet-go/bobnet/ethertype"

// message is a message to or from the driver, or a notification.
type message struct {
	node  int
	query bool   // need not be reliable
	own   bool   // of the driver: a reply or a query
	data  []byte // nil for a notification
	frame uint32
	of    *tenant // the program whose process has sent it, or nil
}

// mostMessages limits the messages that wait for the driver.
const mostMessages = 256

// mostReplies limits the driver's replies and queries that wait to be sent to one node. It is much
// more than mostMessages can cause at a time.
const mostReplies = 1024

// kept holds frames whose numbers an importer may still use. They depend on the importer's line;
// pings detect whether it has ended at the other side.
type kept struct {
	run
	frames *frames
	guest  *guest // the guest whose run others may still name; nil for a separate run
	node   int
	peer   ethertype.Addr
	port   uint16
}

// service is the driver's interrupt handler. The caller must hold the lock.
func (h *Card) service() {
	h.causes = 0
	if h.load {
		h.load = false
		if err := h.loadProgram(h.routes); err != nil {
			h.host.Fail(err)
		}
	}
	rings := len(h.missing) > 0
	for _, p := range h.missing {
		if p.queue.open && p.queue.missing {
			h.prog.refill(&p.queue, p.pages())
		}
	}
	h.missing = h.missing[:0]
	for h.came.Len() > 0 {
		m := h.came.Pop()
		if m.data == nil {
			h.tellNotified(m.frame)
			continue
		}
		h.hear(&m)
	}
	if rings {
		h.page.Ring()
	}
}

// missed records that a process lacks a translation.
func (h *Card) missed(p *seat) { h.missing = append(h.missing, p) }

// hasRoom reports whether the driver can accept a message.
func (h *Card) hasRoom() bool { return h.came.Len() < mostMessages }

// messageCame queues a message from the card.
func (h *Card) messageCame(node int, query bool, data []byte) {
	h.came.Push(message{node: node, query: query, data: append(make([]byte, 0, len(data)+1), data...)})
}

// notified queues a notification from the card.
func (h *Card) notified(frame uint32) { h.came.Push(message{frame: frame}) }

func (h *Card) tellNotified(frame uint32) {
	if x := &h.frames.all[frame]; x.owner != nil {
		x.owner.hearNote(frame, ethertype.Addr{MAC: h.prog.nodes.MAC(x.to.node), Port: x.to.port})
	}
}

// send queues a process's message. The caller must hold the lock.
func (h *Card) send(node int, data []byte) {
	h.leaving.Push(message{node: node, data: data})
	h.page.Ring()
}

// query queues a message that need not be reliable. The caller must hold the lock.
func (h *Card) query(node int, data []byte) {
	h.reply(message{node: node, query: true, data: data})
	h.page.Ring()
}

// ping requests an answer from a node, from within the program. At most one ping is outstanding.
func (h *Card) ping(node int) {
	if l := &h.prog.lines[node]; !l.pinged {
		l.pinged = true
		h.leaving.Push(message{node: node, data: []byte{ctlPing}})
	}
}

// refused notifies a node that one of its processes has written to memory without permission.
func (h *Card) refused(node int, port uint16, frame uint32) {
	b := append(make([]byte, 0, 8), ctlRefused)
	h.reply(message{node: node, data: be32(be16(b, port), frame)})
}

// reply queues a message of the driver. If there is no room, the message is dropped and counted.
func (h *Card) reply(m message) {
	l := &h.prog.lines[m.node]
	if l.replies >= mostReplies {
		h.prog.count.Unreplied++
		return
	}
	l.replies++
	m.own = true
	h.leaving.Push(m)
}

// left records that a message has begun to leave, or will not leave.
func (h *Card) left(m *message) {
	if m.of.left(); m.own {
		h.prog.lines[m.node].replies--
	}
}

// lineCut ends everything that depends on a line: proxy pages that lead there become invalid at
// once, and the connections are notified.
func (h *Card) lineCut(node int) {
	mac := h.prog.nodes.MAC(node)
	h.leaving.Keep(func(m *message) bool {
		keep := m.node != node || m.query || m.data[0] == ctlPing
		if !keep {
			h.left(m)
		}
		return keep
	})
	h.came.Keep(func(m *message) bool { return m.node != node || m.query || m.data == nil })
	for _, p := range h.inOrder() {
		if p.queue.open && p.queue.lines == nil {
			p.queue.table.closeNode(node)
		}
		p.tell(event{kind: eventCut, from: ethertype.Addr{MAC: mac}, node: node, line: h.prog.lines[node].number})
	}
	for i := range h.frames.all {
		if x := &h.frames.all[i]; x.owner != nil && x.to.node == node {
			h.shut(run{uint32(i), 1})
		}
	}
	h.keepFrames(func(k *kept) bool { return k.peer.MAC != mac })
	h.announce()
}

// keepFrames frees the kept frames for which keep returns false.
func (h *Card) keepFrames(keep func(k *kept) bool) {
	left := h.kept[:0]
	for i := range h.kept {
		if k := h.kept[i]; keep(&k) {
			left = append(left, k)
		} else {
			if k.guest == nil {
				k.frames.free(k.run)
			} else if k.guest.named--; k.guest.named == 0 {
				k.guest.freePages()
			}
			if h.far == nil {
				h.prog.lines[k.node].users--
			}
		}
	}
	h.kept = left
}

// hang changes the number of users of a line: connections, and frames and partings that wait for
// the other side.
func (h *Card) hang(node, by int, patient int64) {
	if h.far != nil {
		return // the card's process counts them
	}
	l := &h.prog.lines[node]
	l.users += by
	if patient > 0 {
		l.patient = min(l.patient, patient)
	}
	h.page.Ring()
}
