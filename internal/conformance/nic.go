package conformance

import (
	"context"
	"errors"
	"math"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// shortLink is a link that reports a different MTU.
type shortLink struct {
	transport.Link
	mtu int
}

func (l shortLink) Info() transport.Info {
	i := l.Link.Info()
	i.MTU = l.mtu
	return i
}

// opens opens a NIC over a new link that reports mtu, and closes the NIC.
func (c *Case) opens(mtu int) error {
	c.Helper()
	links, err := c.open()
	if err != nil {
		c.Fatal(err)
	}
	defer links.Links[1].Close()
	n, err := vipl.Open(context.Background(), &vipl.Config{Link: shortLink{links.Links[0], mtu}, WireOnly: true, NoService: true})
	if err == nil {
		err = n.Close()
	}
	return err
}

var nicRules = []rule{
	{"VipOpenNic", "UnknownDevice_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		n, err := vipl.Open(context.Background(), &vipl.Config{Interface: "no-such-dev0"})
		if n != nil || err == nil {
			c.Fatal("an interface that does not exist was opened")
		}
		c.is(err, vipl.ErrArgument)
		c.is(err, transport.ErrInterface)
	}},
	{"VipOpenNic", "UnknownDriver_InvalidParameter", "doc", anyLevel, func(c *Case) {
		_, err := vipl.Open(context.Background(), &vipl.Config{Driver: "carrier pigeon"})
		c.is(err, vipl.ErrArgument)
	}},
	{"VipOpenNic", "BadReliability_InvalidParameter", "doc", anyLevel, func(c *Case) {
		links, err := c.open()
		c.is(err, nil)
		defer links.Links[1].Close()
		_, err = vipl.Open(context.Background(), &vipl.Config{Link: links.Links[0], WireOnly: true, Reliability: &reliability.Config{Window: -1}})
		c.is(err, vipl.ErrArgument)
	}},
	{"VipOpenNic", "MTUTooSmall_InvalidMTU", "3 V", anyLevel, func(c *Case) { c.is(c.opens(300), vipl.ErrInvalidMTU) }},
	{"VipOpenNic", "SmallMTU_Success", "3 V", anyLevel, func(c *Case) { c.is(c.opens(576), nil) }},
	{"VipOpenNic", "Address_IsTheLinksLowestPort", "doc", anyLevel, func(c *Case) {
		for side, l := range c.Links {
			if i, a := l.Info(), c.nics[side].Addr(); a.MAC != i.MAC || a.Port != i.Ports.Lo {
				c.Errorf("NIC %d is %v, its link has %v and ports from %d", side, a, i.MAC, i.Ports.Lo)
			}
		}
	}},
	rule{"VipCloseNic", "Twice_Success", "2.1 V", anyLevel, func(c *Case) {
		c.is(c.A.Close(), nil)
		c.is(c.A.Close(), nil)
	}}.own(),
	rule{"VipCloseNic", "Connected_PeerIsTold", "2.1 V", allLevels, func(c *Case) {
		c.twoNICs("one NIC closes, and the other is notified")
		_, b := c.pair()
		c.is(c.A.Close(), nil)
		c.ended(vipl.ErrDisconnected, b)
	}}.own(),
	rule{"VipCloseNic", "Posted_Flushed", "2.1 V", allLevels, func(c *Case) {
		a, _ := c.pair()
		r := c.post(a, 8)
		c.is(c.A.Close(), nil)
		d, err := a.RecvDone()
		c.expect(d, err, r, vipl.StatusOpReceive|vipl.StatusFlushed)
		_, err = a.RecvDone()
		c.is(err, vipl.ErrClosed)
	}}.own(),
	rule{"VipCloseNic", "Waiting_InvalidState", "2.1 V", anyLevel, func(c *Case) {
		a, _ := c.pair()
		c.post(a, 8)
		err := c.during(c.A, func() error { // the first call returns the flushed receive
			if d, err := a.RecvWait(c.ctx()); d == nil || !errors.Is(err, vipl.ErrDescriptor) {
				return err
			}
			_, err := a.RecvWait(c.ctx())
			return err
		}, func() { c.A.Close() })
		c.is(err, vipl.ErrClosed)
		c.is(err, vipl.ErrInvalidState)
	}}.own(),
	rule{"VipCloseNic", "WaitingForConnection_InvalidState", "2.1 V", anyLevel, func(c *Case) {
		l := c.listen(c.A)
		err := c.during(c.A, func() error { _, err := l.Wait(c.ctx()); return err }, func() { c.A.Close() })
		c.is(err, vipl.ErrClosed)
	}}.own(),
	rule{"VipCloseNic", "Connecting_InvalidState", "2.1 V", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		l := c.listen(c.B)
		err := c.during(c.A, func() error { return v.Connect(c.ctx(), l.Addr(), nil) }, func() { c.A.Close() })
		c.is(err, vipl.ErrClosed)
	}}.own(),
	rule{"VipCloseNic", "AllocatedMemory_Deregistered", "2.1 V", anyLevel, func(c *Case) {
		_, h, err := c.A.AllocMem(4096, nil)
		c.is(err, nil)
		c.is(c.A.Close(), nil)
		_, err = c.A.QueryMem(h)
		c.is(err, vipl.ErrClosed)
		if n := c.A.Snapshot().Regions; n != 0 {
			c.Errorf("%d regions are left", n)
		}
	}}.own(),
	{"VipOpenNic", "Incarnation_Differs", "doc", anyLevel, func(c *Case) {
		c.twoNICs("it compares two NICs")
		before := c.A.Query().Incarnation
		if before == c.B.Query().Incarnation || before == 0 {
			c.Error("both NICs have incarnation", before)
		}
	}},
}

// nicQueryRules returns one rule for each attribute of a NIC.
func nicQueryRules() (rs []rule) {
	for _, f := range []struct {
		name string
		ok   func(q *vipl.NICAttributes, i *transport.Info) bool
	}{
		{"Name", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.Name == i.Interface && q.Name != "" }},
		{"Driver", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.Driver == i.Driver && q.Driver != "" }},
		{"LocalNicAddress", func(q *vipl.NICAttributes, i *transport.Info) bool {
			return q.Addr.MAC == i.MAC && q.Addr.Port == i.Ports.Lo
		}},
		{"Ports", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.Ports == i.Ports }},
		{"HardwareVersion", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.HardwareVersion == "" || !i.Virtual }},
		{"ProviderVersion", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.ProviderVersion == ethertype.Version }},
		{"NativeMTU", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.NativeMTU == i.MTU }},
		{"MaxTransferSize", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.MaxTransferSize == vipl.MaxTransferSize }},
		{"MaxDiscriminatorLen", func(q *vipl.NICAttributes, i *transport.Info) bool {
			return q.MaxDiscriminatorLen == maxDiscriminator
		}},
		{"MaxVI", func(q *vipl.NICAttributes, i *transport.Info) bool {
			return q.MaxVI == min(maxVIs, int(i.Ports.Hi)-int(i.Ports.Lo))
		}},
		{"MaxDescriptorsPerQueue", func(q *vipl.NICAttributes, i *transport.Info) bool {
			return q.MaxDescriptorsPerQueue == vipl.MaxQueueDepth
		}},
		{"MaxSegmentsPerDesc", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.MaxSegmentsPerDesc == vipl.MaxSegments }},
		{"MaxRegisterRegions", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.MaxRegisterRegions == maxRegions }},
		{"MaxRegisterBytes", func(q *vipl.NICAttributes, i *transport.Info) bool {
			return q.MaxRegisterBytes == maxRegisterBytes
		}},
		{"MaxRegisterBlockBytes", func(q *vipl.NICAttributes, i *transport.Info) bool {
			return q.MaxRegisterBlockBytes == maxRegisterBytes
		}},
		{"MaxPtags", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.MaxPtags == maxPtags }},
		{"MaxCQ", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.MaxCQ == maxCQs }},
		{"MaxCQEntries", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.MaxCQEntries == vipl.MaxCQEntries }},
		{"ReliabilityLevelSupport", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.ReliabilityLevels == allLevels }},
		{"ThreadSafe", func(q *vipl.NICAttributes, i *transport.Info) bool { return q.ThreadSafe }},
	} {
		rs = append(rs, rule{"VipQueryNic", f.name, "11 V", anyLevel, func(c *Case) {
			for _, n := range c.nics {
				q, i := n.Query(), seam.Link(n).Info()
				if !f.ok(&q, &i) {
					c.Errorf("%s: %+v does not fit the link's %+v", f.name, q, i)
				}
			}
		}})
	}
	return rs
}

// The limits that a NIC's attributes must contain.
const (
	maxVIs           = 1 << 14
	maxRegions       = 1 << 20
	maxRegisterBytes = math.MaxInt
	maxPtags         = maxVIs
	maxCQs           = 2 * maxVIs
	maxHostName      = 64
	maxDiscriminator = vipl.MaxConnData - 6
)
