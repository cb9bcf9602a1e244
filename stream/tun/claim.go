package tun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// How hosts agree on who has an address, if several want it at the same time.
//
// A host that wants an address first looks whether somebody answers to its name. If nobody
// does it tells two names: that of its claim, and that of the address. Then it looks at the
// address's name again. Of two hosts at least the one that told it later sees the other. It
// gives up if the other's Bobnet address is lower. If that is higher, it waits until the
// other gives up; but if the other no longer claims the address and still answers to it, the
// other has looked before there was anything to see, and has the address. A host ends its
// claim when it is sure of its address.

// directory is what claims need of a NIC.
type directory interface {
	Advertise(name string, addr ethertype.Addr) error
	Withdraw(name string)
	LookupAll(ctx context.Context, name string) ([]ethertype.Addr, error)
}

// errTaken is wrapped by the error of Open for an address that another host answers to, or
// gets because it has claimed it at the same time and its Bobnet address is lower.
var errTaken = errors.New("tun: the address is taken")

// claimTime bounds how long a host waits for others that claim its address.
const claimTime = 20 * time.Second

// claims are those of one host for its addresses.
type claims struct {
	dir     directory
	network string
	at      ethertype.Addr // where the host is
	log     *slog.Logger

	mu              sync.Mutex
	names, contests []string // that have been told: of addresses, and of claims on them
}

// claimOf returns the name of a claim on what has a name.
func claimOf(name string) string { return name + "/claim" }

// get gets all addresses, or says which it cannot get. Then sure or end is called. ctx has no
// deadline, since lookups would take until then.
func (c *claims) get(ctx context.Context, addrs []netip.Addr) error {
	errs := make([]error, len(addrs))
	var all sync.WaitGroup
	for i, a := range addrs {
		all.Go(func() { errs[i] = c.getOne(ctx, a) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *claims) getOne(ctx context.Context, a netip.Addr) error {
	name := name(c.network, a)
	who, err := c.dir.LookupAll(ctx, name)
	if err != nil {
		return err
	}
	if len(who) > 0 {
		return fmt.Errorf("%w: %v answers to %v on network %q: choose another address, or end what runs there", errTaken, who[0].MAC, a, c.network)
	}
	if err := c.tell(&c.contests, claimOf(name)); err != nil {
		return err
	}
	if err := c.tell(&c.names, name); err != nil {
		return err
	}
	return c.settle(ctx, a, name)
}

// tell has the segment know a name, and notes that in a list.
func (c *claims) tell(list *[]string, name string) error {
	if err := c.dir.Advertise(name, c.at); err != nil {
		return fmt.Errorf("tun: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, name)
	return nil
}

// settle returns nil when no other host that matters answers to an address.
func (c *claims) settle(ctx context.Context, a netip.Addr, name string) error {
	begun, said := time.Now(), false
	for time.Since(begun) < claimTime {
		before, err := c.dir.LookupAll(ctx, name)
		if err != nil || len(before) == 0 {
			return err
		}
		if lowest := slices.MinFunc(before, ethertype.Addr.Compare); lowest.Compare(c.at) < 0 {
			return c.lost(a, lowest, "has claimed %v on network %q at the same time, and its Bobnet address is lower")
		}
		if !said {
			said = true
			c.log.Warn("tun: another host claims the same address at the same time: it has to give up, as its Bobnet address is higher", "address", a, "other", before[0], "own", c.at)
		}
		claiming, err := c.dir.LookupAll(ctx, claimOf(name))
		if err != nil {
			return err
		}
		after, err := c.dir.LookupAll(ctx, name)
		if err != nil {
			return err
		}
		for _, other := range before {
			if slices.Contains(after, other) && !slices.Contains(claiming, other) {
				return c.lost(a, other, "has got %v on network %q a moment before")
			}
		}
	}
	return fmt.Errorf("%w: who gets %v on network %q was not settled within %v: choose another address", errTaken, a, c.network, claimTime)
}

// lost says, also in the log, that another host has an address, and why.
func (c *claims) lost(a netip.Addr, other ethertype.Addr, why string) error {
	err := fmt.Errorf("%w: %v "+why+": choose another address, or end what runs there", errTaken, other.MAC, a, c.network)
	c.log.Warn("tun: another host gets the address", "address", a, "other", other, "own", c.at, "error", err)
	return err
}

// sure ends the claims: the addresses are this host's.
func (c *claims) sure() { c.withdraw(&c.contests) }

// end withdraws all names: those of addresses before those of the claims on them, so that
// whoever sees an address and no claim on it knows that the host has the address.
func (c *claims) end() {
	c.withdraw(&c.names)
	c.withdraw(&c.contests)
}

func (c *claims) withdraw(list *[]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range *list {
		c.dir.Withdraw(name)
	}
	*list = nil
}
