package xdr

// EncodeList encodes a linked list from p on: of each element what members encodes, and
// the link to the next, which is the last member of its type. The link is the optional data
// that the pointer at link(p) is (section 4.19). Elements take no level of depth: the list may have
// any length. One that comes back to an element of itself is ErrCycle.
func EncodeList[T any](e *Encoder, p *T, members func(*T, *Encoder), link func(*T) **T) {
	slow, odd := p, false
	for {
		members(p, e)
		next := *link(p)
		e.Bool(next != nil)
		if next == nil || e.err != nil {
			return
		}
		// Of two that go round, the one that goes twice as fast meets the other.
		if p, odd = next, !odd; !odd {
			slow = *link(slow)
		}
		if p == slow {
			e.fail(ErrCycle, "linked list", 0, 0)
			return
		}
	}
}

// DecodeList decodes a linked list into p and what follows it: of each element what members
// decodes, size octets or more, and the link. Elements that are linked to already are
// decoded into. Memory for an element is taken when those before it have been decoded and
// the message can hold it.
func DecodeList[T any](d *Decoder, p *T, size int, members func(*T, *Decoder), link func(*T) **T) {
	for {
		members(p, d)
		next := link(p)
		if !d.Bool() || !d.Need("linked list", size) {
			*next = nil
			return
		}
		if *next == nil {
			*next = new(T)
		}
		p = *next
	}
}
