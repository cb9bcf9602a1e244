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

// How hosts decide which of them gets an address that several claim at the same time.
//
// A host that wants an address first checks whether another host answers to the address's name. If
// none does, it advertises two names: that of its claim, and that of the address. Then it checks
// the address's name again. Of two such hosts, at least the one that advertised later finds the
// other. It gives up if the other host's Bobnet address is lower. If the other's address is higher,
// it waits until the other gives up. But if the other has ended its claim and still answers to the
// address, the other host made its checks before this one advertised, and owns the address. A host
// ends its claim once it owns the address.

// directory is the part of a NIC that claims use.
type directory interface {
	Advertise(name string, addr ethertype.Addr) error
	Withdraw(name string)
	LookupAll(ctx context.Context, name string) ([]ethertype.Addr, error)
}

// errTaken is wrapped by the error of Open if another host has the address, or wins a simultaneous
// claim because its Bobnet address is lower.
var errTaken = errors.New("tun: the address is taken")

// claimTime bounds how long a host waits for the claims of others on its address.
const claimTime = 20 * time.Second

// claims are the claims of one host on its addresses.
type claims struct {
	dir     directory
	network string
	at      ethertype.Addr // this host's Bobnet address
	log     *slog.Logger

	mu              sync.Mutex
	names, contests []string // advertised names: of addresses, and of claims on them
}

// claimOf returns the name of a claim on the address with the given name.
func claimOf(name string) string { return name + "/claim" }

// get acquires all addresses, or returns an error with the one that it cannot get. The caller then
// calls sure or end. ctx must have no deadline, because lookups would last until then.
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
		return fmt.Errorf("%w: %v answers to %v on network %q (choose another address, or stop that host's tun)", errTaken, who[0].MAC, a, c.network)
	}
	if err := c.tell(&c.contests, claimOf(name)); err != nil {
		return err
	}
	if err := c.tell(&c.names, name); err != nil {
		return err
	}
	return c.settle(ctx, a, name)
}

// tell advertises a name and adds it to the list.
func (c *claims) tell(list *[]string, name string) error {
	if err := c.dir.Advertise(name, c.at); err != nil {
		return fmt.Errorf("tun: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, name)
	return nil
}

// settle returns nil once no other host has a better claim to an address.
func (c *claims) settle(ctx context.Context, a netip.Addr, name string) error {
	begun, said := time.Now(), false
	for time.Since(begun) < claimTime {
		before, err := c.dir.LookupAll(ctx, name)
		if err != nil || len(before) == 0 {
			return err
		}
		if lowest := slices.MinFunc(before, ethertype.Addr.Compare); lowest.Compare(c.at) < 0 {
			return c.lost(a, lowest, "claimed %v on network %q at the same time and has the lower Bobnet address")
		}
		if !said {
			said = true
			c.log.Warn("tun: another host claims the same address at the same time; it must give up because its Bobnet address is higher", "address", a, "other", before[0], "own", c.at)
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
				return c.lost(a, other, "got %v on network %q just before")
			}
		}
	}
	return fmt.Errorf("%w: the claims on %v on network %q were not settled within %v (choose another address)", errTaken, a, c.network, claimTime)
}

// lost logs and returns an error that another host has an address, and why.
func (c *claims) lost(a netip.Addr, other ethertype.Addr, why string) error {
	err := fmt.Errorf("%w: %v "+why+" (choose another address, or stop that host's tun)", errTaken, other.MAC, a, c.network)
	c.log.Warn("tun: another host gets the address", "address", a, "other", other, "own", c.at, "error", err)
	return err
}

// sure ends the claims, because the addresses now belong to this host.
func (c *claims) sure() { c.withdraw(&c.contests) }

// end withdraws all names. It withdraws the names of addresses before the claims on them. So a host
// that sees an address without a claim knows that its owner keeps it.
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
