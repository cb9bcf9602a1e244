package endpoint

import (
	"context"
	"hash/fnv"
	"strconv"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
)

// Endpoints can find each other by words instead of names: one publishes a word, and others look it
// up. AM-II leaves this to the start-up of the job.

// serviceName returns the name that the NIC advertises for a word.
func serviceName(word string) string { return "am2/" + word }

// reword replaces the advertised name by its word in an error.
func reword(err error, word string) error {
	return errclass.Reword(err, strconv.Quote(serviceName(word)), "the word "+strconv.Quote(word))
}

// serviceID returns the number that represents a word in place of an endpoint's ID.
func serviceID(word string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(word))
	return h.Sum32()
}

// Publish makes the endpoint available to Node.Find under a word, until the endpoint is freed. The
// error is ErrInUse if the node has already published the word, or one with the same number.
// Otherwise it is that of NIC.Advertise.
func (ep *Endpoint) Publish(word string) error {
	n := ep.node
	n.mu.Lock()
	defer n.mu.Unlock()
	id := serviceID(word)
	switch {
	case ep.freed:
		return ep.gone()
	case n.services[id] != nil:
		return provider.OpError("publish", ErrInUse, "%q, or a word of the same number, is published on this node", word)
	}
	if err := n.way.Advertise(serviceName(word)); err != nil {
		return reword(err, word)
	}
	n.services[id] = ep
	ep.published = append(ep.published, word)
	return nil
}

// withdraw reverts Publish.
func (ep *Endpoint) withdraw() {
	for _, word := range ep.published {
		delete(ep.node.services, serviceID(word))
		ep.node.way.Withdraw(serviceName(word))
	}
	ep.published = nil
}

// Find looks up a word on the segment and returns a name to map. The name stands for the endpoint
// that publishes the word there, even after a restart: it has no incarnation, and differs from that
// endpoint's Name. Find waits until ctx ends or, without a deadline, as long as vipl.NIC.Lookup
// does.
func (n *Node) Find(ctx context.Context, word string) (Name, error) {
	return n.FindAt(ctx, ethertype.Addr{}, word)
}

// FindAt is like Find for a word of an endpoint at the NIC with the given address. It queries only
// that NIC. A node on a card queries the whole segment.
func (n *Node) FindAt(ctx context.Context, at ethertype.Addr, word string) (Name, error) {
	addr, err := n.way.Lookup(ctx, at, serviceName(word))
	if err != nil {
		return Name{}, reword(err, word)
	}
	return Name{Addr: addr, ID: serviceID(word)}, nil
}
