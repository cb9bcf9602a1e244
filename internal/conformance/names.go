package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// advertise makes n answer lookups of a name until the rule ends.
func (c *Case) advertise(n *vipl.NIC, name string, addr ethertype.Addr) {
	c.Helper()
	c.is(n.Advertise(name, addr), nil)
	c.cleanup = append(c.cleanup, func() { n.Withdraw(name) })
}

// lookup looks up a name through n.
func (c *Case) lookup(n *vipl.NIC, name string) (a ethertype.Addr, err error) {
	c.Helper()
	c.block(n, func() { a, err = n.Lookup(c.ctx(), name) })
	return a, err
}

// unknown checks that a lookup finds no address for a name.
func (c *Case) unknown(n *vipl.NIC, name string) {
	c.Helper()
	ctx, cancel := n.WithTimeout(context.Background(), 25*time.Millisecond)
	defer cancel()
	var err error
	c.block(n, func() { _, err = n.Lookup(ctx, name) })
	c.is(err, vipl.ErrNameService)
}

var nameRules = []rule{
	{"VipNSGetHostByName", "OtherNICsName_ItsAddress", "2.8 V", anyLevel, func(c *Case) {
		want := c.listen(c.B).Addr()
		c.advertise(c.B, "over there", want)
		got, err := c.lookup(c.A, "over there")
		c.is(err, nil)
		if got != want {
			c.Error(got, want)
		}
	}},
	{"VipNSGetHostByName", "OwnName_OwnAddress", "2.8 V", anyLevel, func(c *Case) {
		want := c.listen(c.A).Addr()
		c.advertise(c.A, "here", want)
		got, err := c.A.Lookup(context.Background(), "here")
		c.is(err, nil)
		if got != want {
			c.Error(got, want)
		}
	}},
	{"VipNSGetHostByName", "Unknown_NameService", "3 V", anyLevel, func(c *Case) { c.unknown(c.A, "nobody") }},
	{"VipNSGetHostByName", "PartOfAName_NameService", "3 V", anyLevel, func(c *Case) {
		c.advertise(c.B, "whole name", c.B.Addr())
		c.unknown(c.A, "whole")
	}},
	{"VipNSGetHostByName", "Empty_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		_, err := c.A.Lookup(context.Background(), "")
		c.is(err, vipl.ErrArgument)
	}},
	{"VipNSGetHostByName", "TooLong_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		_, err := c.A.Lookup(context.Background(), strings.Repeat("x", vipl.MaxName+1))
		c.is(err, vipl.ErrArgument)
	}},
	{"VipNSGetHostByName", "Longest_Found", "doc", anyLevel, func(c *Case) {
		name := strings.Repeat("x", vipl.MaxName)
		c.advertise(c.B, name, c.B.Addr())
		got, err := c.lookup(c.A, name)
		c.is(err, nil)
		if got != c.B.Addr() {
			c.Error(got)
		}
	}},
	{"VipNSGetHostByName", "Many_EachItsAddress", "2.8 V", anyLevel, func(c *Case) {
		for i := range uint16(10) {
			c.advertise(c.B, fmt.Sprint("name ", i), ethertype.Addr{MAC: c.B.Addr().MAC, Port: c.B.Addr().Port + i})
		}
		for i := range uint16(10) {
			got, err := c.lookup(c.A, fmt.Sprint("name ", i))
			c.is(err, nil)
			if got.Port != c.B.Addr().Port+i || got.MAC != c.B.Addr().MAC {
				c.Error(i, got)
			}
		}
	}},
	{"VipNSInit", "AdvertiseTwice_NameService", "3 V", anyLevel, func(c *Case) {
		c.advertise(c.A, "me", c.A.Addr())
		c.is(c.A.Advertise("me", c.A.Addr()), vipl.ErrNameService)
	}},
	{"VipNSInit", "AdvertiseEmpty_InvalidParameter", "3 V", anyLevel, func(c *Case) { c.is(c.A.Advertise("", c.A.Addr()), vipl.ErrArgument) }},
	{"VipNSInit", "AdvertiseTooLong_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.is(c.A.Advertise(strings.Repeat("x", vipl.MaxName+1), c.A.Addr()), vipl.ErrArgument)
	}},
	{"VipNSInit", "AdvertiseForAnother_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		addr := c.A.Addr()
		addr.MAC[5] ^= 0x55
		c.is(c.A.Advertise("you", addr), vipl.ErrArgument)
	}},
	{"VipNSShutdown", "Withdrawn_NameService", "2.8 V", anyLevel, func(c *Case) {
		c.advertise(c.B, "was here", c.B.Addr())
		_, err := c.lookup(c.A, "was here")
		c.is(err, nil)
		c.B.Withdraw("was here")
		c.unknown(c.A, "was here")
	}},
	{"VipNSShutdown", "WithdrawnTwice_Nothing", "doc", anyLevel, func(c *Case) {
		c.A.Withdraw("never was")
		c.advertise(c.A, "again", c.A.Addr())
		c.A.Withdraw("again")
		c.A.Withdraw("again")
		c.advertise(c.A, "again", c.A.Addr())
	}},
}

// ethers writes an ethers file and returns its path.
func (c *Case) ethers(text string) string {
	c.Helper()
	path := filepath.Join(c.TempDir(), "ethers")
	c.is(os.WriteFile(path, []byte(text), 0o600), nil)
	return path
}
