package conformance

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// meet connects VIs of A and B as peers, with the rule's kind of wait.
func (c *Case) meet(a, b *vipl.VI, disc []byte) (errA, errB error) {
	c.Helper()
	if c.wait == Block {
		ctx := c.ctx()
		return c.both(c.A, func() error { return a.ConnectPeer(ctx, c.B.Addr(), disc) },
			func() error { return b.ConnectPeer(ctx, c.A.Addr(), disc) })
	}
	c.is(a.ConnectPeerStart(c.B.Addr(), disc), nil)
	c.is(b.ConnectPeerStart(c.A.Addr(), disc), nil)
	return c.peered(a), c.peered(b)
}

// peered waits for the result of v's attempt to connect as a peer.
func (c *Case) peered(v *vipl.VI) (err error) {
	c.Helper()
	c.await("the end of a peer's attempt to connect", func() bool { err = v.ConnectPeerDone(); return err != vipl.ErrNotDone })
	return err
}

// unlike connects peers whose attributes do not match. Both must get the error want.
func unlike(name string, want error, change func(a *vipl.Attributes)) rule {
	return rule{"VipConnectPeerDone", name, "2.4 M, 8 V", allLevels, func(c *Case) {
		attr := c.attr()
		change(attr)
		a, b := c.vi(c.A, nil), c.vi(c.B, attr)
		errA, errB := c.meet(a, b, []byte("x"))
		c.is(errA, want)
		c.is(errB, want)
		c.state(a, vipl.StateIdle)
		c.state(b, vipl.StateIdle)
	}}
}

// knows connects peers, and checks that each gets the other's attributes.
func knows(call string, meet func(c *Case, a, b *vipl.VI, disc []byte) (errA, errB error)) rule {
	return rule{call, "RemoteAttributes_AreThePeers", "2.4 M", allLevels, func(c *Case) {
		x, y := c.unlikes()[0], c.unlikes()[1]
		a, b := c.vi(c.A, x), c.vi(c.B, y)
		errA, errB := meet(c, a, b, []byte("x"))
		c.is(errA, nil)
		c.is(errB, nil)
		c.remoteIs(a.RemoteAttributes(), y)
		c.remoteIs(b.RemoteAttributes(), x)
	}}
}

var peerRules = []rule{
	{"VipConnectPeerRequest", "TooLongDiscriminator_InvalidParameter", "11 V", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectPeerStart(c.B.Addr(), make([]byte, maxDiscriminator+1)), vipl.ErrArgument)
	}},
	{"VipConnectPeerRequest", "OwnNIC_InvalidParameter", "doc", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectPeerStart(c.A.Addr(), nil), vipl.ErrArgument)
	}},
	{"VipConnectPeerRequest", "GroupAddress_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectPeerStart(ethertype.Addr{MAC: ethertype.Broadcast, Port: 2000}, nil), vipl.ErrArgument)
	}},
	{"VipConnectPeerRequest", "NotIdle_InvalidState", "3 V", allLevels, func(c *Case) {
		a, _ := c.pair()
		c.is(a.ConnectPeerStart(c.B.Addr(), nil), vipl.ErrInvalidState)
		c.state(a, vipl.StateConnected)
	}},
	{"VipConnectPeerDone", "NeverAsked_InvalidState", "3 V", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectPeerDone(), vipl.ErrInvalidState)
	}},
	{"VipConnectPeerWait", "NeverAsked_InvalidState", "3 V", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectPeerWait(c.ctx()), vipl.ErrInvalidState)
	}},
	{"VipConnectPeerWait", "Destroyed_InvalidState", "3 V", anyLevel, func(c *Case) {
		v := c.vi(c.A, nil)
		c.is(v.Close(), nil)
		c.is(v.ConnectPeerWait(c.ctx()), vipl.ErrClosed)
		c.is(v.ConnectPeerStart(c.B.Addr(), nil), vipl.ErrClosed)
	}},
}

// peersRules contains the rules about connected peers. They need VIs of two NICs.
var peersRules = []rule{
	{"VipConnectPeerRequest", "BothAsk_BothConnected", "2.4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		errA, errB := c.meet(a, b, []byte("rendezvous"))
		c.is(errA, nil)
		c.is(errB, nil)
		c.works(a, b)
	}},
	{"VipConnectPeerRequest", "NoDiscriminator_Connected", "doc", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		errA, errB := c.meet(a, b, nil)
		c.is(errA, nil)
		c.is(errB, nil)
		c.works(a, b)
	}},
	{"VipConnectPeerRequest", "LongestDiscriminator_Connected", "11 V", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		errA, errB := c.meet(a, b, make([]byte, maxDiscriminator))
		c.is(errA, nil)
		c.is(errB, nil)
	}},
	{"VipConnectPeerRequest", "SameTwice_InvalidState", "doc", anyLevel, func(c *Case) {
		c.is(c.vi(c.A, nil).ConnectPeerStart(c.B.Addr(), []byte("x")), nil)
		c.is(c.vi(c.A, nil).ConnectPeerStart(c.B.Addr(), []byte("x")), vipl.ErrInvalidState)
		c.is(c.vi(c.A, nil).ConnectPeerStart(c.B.Addr(), []byte("y")), nil)
	}},
	{"VipConnectPeerRequest", "SeveralPairs_ByDiscriminator", "8 V", allLevels, func(c *Case) {
		a, b, p, q := c.vi(c.A, nil), c.vi(c.B, nil), c.vi(c.A, nil), c.vi(c.B, nil)
		c.is(a.ConnectPeerStart(c.B.Addr(), []byte("one")), nil)
		c.is(q.ConnectPeerStart(c.A.Addr(), []byte("two")), nil)
		c.is(p.ConnectPeerStart(c.B.Addr(), []byte("two")), nil)
		c.is(b.ConnectPeerStart(c.A.Addr(), []byte("one")), nil)
		for _, v := range []*vipl.VI{a, b, p, q} {
			c.is(c.peered(v), nil)
		}
		if a.Remote() != b.Local() || p.Remote() != q.Local() {
			c.Error("they are connected crosswise")
		}
		c.works(a, b)
		c.works(p, q)
	}},
	{"VipConnectPeerRequest", "AfterDisconnect_ConnectedAgain", "4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		for range 3 {
			errA, errB := c.meet(a, b, []byte("again"))
			c.is(errA, nil)
			c.is(errB, nil)
			c.works(a, b)
			c.is(a.Disconnect(), nil)
			c.ended(vipl.ErrDisconnected, b)
			c.is(b.Disconnect(), nil)
		}
	}},
	{"VipConnectPeerDone", "Pending_NotDone", "2.4 M", anyLevel, func(c *Case) {
		a := c.vi(c.A, nil)
		c.is(a.ConnectPeerStart(c.B.Addr(), nil), nil)
		c.is(a.ConnectPeerDone(), vipl.ErrNotDone)
		c.state(a, vipl.StateConnectPending)
	}},
	{"VipConnectPeerDone", "OtherComesLater_Connected", "2.4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		c.is(a.ConnectPeerStart(c.B.Addr(), nil), nil)
		c.drain()
		c.is(a.ConnectPeerDone(), vipl.ErrNotDone)
		c.is(b.ConnectPeerStart(c.A.Addr(), nil), nil)
		c.is(c.peered(a), nil)
		c.is(c.peered(b), nil)
		c.works(a, b)
	}},
	{"VipConnectPeerDone", "OtherDiscriminator_StaysPending", "8 V", anyLevel, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		c.is(a.ConnectPeerStart(c.B.Addr(), []byte("left")), nil)
		c.is(b.ConnectPeerStart(c.A.Addr(), []byte("right")), nil)
		c.drain()
		c.is(a.ConnectPeerDone(), vipl.ErrNotDone)
		c.is(b.ConnectPeerDone(), vipl.ErrNotDone)
	}},
	{"VipConnectPeerDone", "Abandoned_Disconnected", "4 M", anyLevel, func(c *Case) {
		a := c.vi(c.A, nil)
		c.is(a.ConnectPeerStart(c.B.Addr(), nil), nil)
		c.is(a.Disconnect(), nil)
		c.is(a.ConnectPeerDone(), vipl.ErrDisconnected)
		c.is(a.ConnectPeerStart(c.B.Addr(), nil), nil) // the discriminator can be used again
	}},
	unlike("OtherLevel_BothInvalidReliability", vipl.ErrInvalidReliability, otherLevel),
	unlike("OtherMaxTransferSize_BothInvalidMTU", vipl.ErrInvalidMTU, func(a *vipl.Attributes) { a.MaxTransferSize = 99 }),
	unlike("OtherQoS_BothInvalidQoS", vipl.ErrInvalidQoS, func(a *vipl.Attributes) { a.QoS = 8 }),
	{"VipConnectPeerWait", "NobodyAsks_Timeout", "2.4 M", anyLevel, func(c *Case) {
		a := c.vi(c.A, nil)
		ctx, cancel := c.A.WithTimeout(context.Background(), 15*time.Millisecond)
		defer cancel()
		var err error
		c.block(c.A, func() { err = a.ConnectPeer(ctx, c.B.Addr(), nil) })
		c.is(err, vipl.ErrTimeout)
		c.state(a, vipl.StateIdle)
	}},
	{"VipConnectPeerWait", "Connected_Success", "2.4 M", allLevels, func(c *Case) {
		a, b := c.vi(c.A, nil), c.vi(c.B, nil)
		c.is(a.ConnectPeerStart(c.B.Addr(), nil), nil)
		c.is(b.ConnectPeerStart(c.A.Addr(), nil), nil)
		ctx := c.ctx()
		errA, errB := c.both(c.A, func() error { return a.ConnectPeerWait(ctx) }, func() error { return b.ConnectPeerWait(ctx) })
		c.is(errA, nil)
		c.is(errB, nil)
		c.works(a, b)
	}},
	knows("VipConnectPeerDone", (*Case).meet),
	knows("VipConnectPeerWait", func(c *Case, a, b *vipl.VI, disc []byte) (errA, errB error) {
		c.is(a.ConnectPeerStart(c.B.Addr(), disc), nil)
		c.is(b.ConnectPeerStart(c.A.Addr(), disc), nil)
		ctx := c.ctx()
		return c.both(c.A, func() error { return a.ConnectPeerWait(ctx) }, func() error { return b.ConnectPeerWait(ctx) })
	}),
}

// discover returns the stations that answer n.
func (c *Case) discover(n *vipl.NIC) (list []vipl.Station) {
	c.Helper()
	ctx, cancel := n.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	var err error
	c.block(n, func() { list, err = n.Discover(ctx) })
	c.is(err, nil)
	return list
}

// found returns the other NIC as n discovers it. It repeats the discovery, because a busy machine
// may answer late.
func (c *Case) found(n *vipl.NIC) vipl.Station {
	c.Helper()
	for range 100 {
		for _, s := range c.discover(n) {
			if s.Addr == c.other(n).Addr() {
				return s
			}
		}
	}
	c.Fatalf("%v is not discovered", c.other(n).Addr())
	return vipl.Station{}
}

// hosts runs the name service of each NIC with the given ethers file.
func (c *Case) hosts(ethers string) {
	c.Helper()
	for side, n := range c.nics {
		if side == 1 && c.self() {
			break
		}
		c.is(n.StartNames(&vipl.NameConfig{HostName: []string{"alpha", "beta"}[side], Ethers: ethers}), nil)
		c.cleanup = append(c.cleanup, func() { n.StartNames(nil) })
	}
}

// noEthers is a file that does not exist. The name service treats it as an empty file.
const noEthers = "testdata/no-ethers"

func (c *Case) hostByName(n *vipl.NIC, name string, index int) (a ethertype.Addr, err error) {
	c.Helper()
	ctx, cancel := n.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if name == "nobody" || index > 0 {
		ctx, cancel = n.WithTimeout(context.Background(), 25*time.Millisecond)
		defer cancel()
	}
	c.block(n, func() { a, err = n.HostByName(ctx, name, index) })
	return a, err
}

func (c *Case) hostByAddr(n *vipl.NIC, addr ethertype.Addr, d time.Duration) (name string, err error) {
	c.Helper()
	ctx, cancel := n.WithTimeout(context.Background(), d)
	defer cancel()
	c.block(n, func() { name, err = n.HostByAddr(ctx, addr) })
	return name, err
}

var stationRules = []rule{
	{"VipQuerySystemManagementInfo", "Autodiscovery_FindsOtherNIC", "2.8 V", anyLevel, func(c *Case) {
		c.twoNICs("a NIC does not discover itself")
		for _, n := range c.nics {
			q := c.other(n).Query()
			if s := c.found(n); s.MTU != q.NativeMTU || s.Incarnation != q.Incarnation || s.Ports != q.Ports || s.Driver != q.Driver {
				c.Errorf("%+v does not fit %+v", s, q)
			}
		}
	}},
	{"VipQuerySystemManagementInfo", "Autodiscovery_NotItself", "doc", anyLevel, func(c *Case) {
		if slices.ContainsFunc(c.discover(c.A), func(s vipl.Station) bool { return s.Addr == c.A.Addr() }) {
			c.Error("the NIC has discovered itself")
		}
	}},
	{"VipQuerySystemManagementInfo", "Autodiscovery_NameServiceStopped_StillFound", "doc", anyLevel, func(c *Case) {
		c.twoNICs("a NIC does not discover itself")
		c.B.StopNames()
		c.cleanup = append(c.cleanup, func() { c.B.StartNames(nil) })
		c.found(c.A)
	}},
	{"VipNSGetHostByName", "HostOnSegment_Address", "2.8 V", anyLevel, func(c *Case) {
		c.twoNICs("the two hosts have different names")
		c.hosts(noEthers)
		a, err := c.hostByName(c.A, "beta", 0)
		c.is(err, nil)
		if a != c.B.Addr() {
			c.Error(a)
		}
	}},
	{"VipNSGetHostByName", "OwnHost_OwnAddress", "2.8 V", anyLevel, func(c *Case) {
		c.hosts(noEthers)
		a, err := c.hostByName(c.A, "alpha", 0)
		c.is(err, nil)
		if a != c.A.Addr() {
			c.Error(a)
		}
	}},
	{"VipNSGetHostByName", "UnknownHost_NameService", "3 V", anyLevel, func(c *Case) {
		c.hosts(noEthers)
		_, err := c.hostByName(c.A, "nobody", 0)
		c.is(err, vipl.ErrNameService)
	}},
	{"VipNSGetHostByName", "IndexBeyondLast_NameService", "2.8 M", anyLevel, func(c *Case) {
		c.hosts(noEthers)
		_, err := c.hostByName(c.A, "beta", 1)
		c.is(err, vipl.ErrNameService)
	}},
	{"VipNSGetHostByName", "NegativeIndex_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		_, err := c.A.HostByName(context.Background(), "beta", -1)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipNSGetHostByName", "EmptyHost_InvalidParameter", "3 V", anyLevel, func(c *Case) {
		_, err := c.A.HostByName(context.Background(), "", 0)
		c.is(err, vipl.ErrArgument)
		_, err = c.A.HostByName(context.Background(), strings.Repeat("x", maxHostName+1), 0)
		c.is(err, vipl.ErrArgument)
	}},
	{"VipNSGetHostByName", "EthersFile_FirstAndByIndex", "2.8 M", anyLevel, func(c *Case) {
		c.hosts(c.ethers("02:01:00:00:00:01 gamma\n02:01:00:00:00:02 gamma\n"))
		for i := range 2 {
			a, err := c.A.HostByName(context.Background(), "gamma", i)
			c.is(err, nil)
			if a != (ethertype.Addr{MAC: ethertype.MAC{2, 1, 0, 0, 0, byte(i + 1)}}) {
				c.Error(i, a)
			}
		}
	}},
	{"VipNSGetHostByAddr", "HostOnSegment_Name", "2.8 V", anyLevel, func(c *Case) {
		c.hosts(noEthers)
		name, err := c.hostByAddr(c.A, c.B.Addr(), time.Second)
		c.is(err, nil)
		want := "beta"
		if c.A.Addr().MAC == c.B.Addr().MAC { // A and B are on the same host, which has one name
			want = "alpha"
		}
		if name != want {
			c.Error(name, want)
		}
	}},
	{"VipNSGetHostByAddr", "EthersFile_Name", "2.8 V", anyLevel, func(c *Case) {
		c.hosts(c.ethers("02:01:00:00:00:01 gamma\n"))
		name, err := c.A.HostByAddr(context.Background(), ethertype.Addr{MAC: ethertype.MAC{2, 1, 0, 0, 0, 1}, Port: 9})
		c.is(err, nil)
		if name != "gamma" {
			c.Error(name)
		}
	}},
	{"VipNSGetHostByAddr", "UnknownAddress_NameService", "3 V", anyLevel, func(c *Case) {
		c.hosts(noEthers)
		_, err := c.hostByAddr(c.A, ethertype.Addr{MAC: ethertype.MAC{2, 0xEE, 0xEE, 0xEE, 0xEE, 0xEF}}, 15*time.Millisecond)
		c.is(err, vipl.ErrNameService)
	}},
	{"VipNSInit", "BadEthersFile_Error", "doc", anyLevel, func(c *Case) {
		err := c.A.StartNames(&vipl.NameConfig{HostName: "alpha", Ethers: c.ethers("no such line\n02:01:00:00:00:01 gamma\n")})
		c.cleanup = append(c.cleanup, func() { c.A.StartNames(nil) })
		if err == nil {
			c.Error("an invalid ethers file gave no error")
		}
		a, err := c.A.HostByName(context.Background(), "gamma", 0)
		c.is(err, nil)
		if a.MAC != (ethertype.MAC{2, 1, 0, 0, 0, 1}) {
			c.Error(a)
		}
	}},
	{"VipNSShutdown", "Stopped_CallsReturnNameService", "2.8 V", anyLevel, func(c *Case) {
		c.hosts(noEthers)
		c.A.StopNames()
		_, err := c.A.HostByName(context.Background(), "beta", 0)
		c.is(err, vipl.ErrNameService)
		_, err = c.A.HostByAddr(context.Background(), c.B.Addr())
		c.is(err, vipl.ErrNameService)
		_, err = c.A.Lookup(context.Background(), "x")
		c.is(err, vipl.ErrNameService)
		c.is(c.A.Advertise("x", c.A.Addr()), vipl.ErrNameService)
		c.is(c.A.StartNames(nil), nil)
		c.is(c.A.Advertise("x", c.A.Addr()), nil)
		c.A.Withdraw("x")
	}},
	{"VipNSShutdown", "Stopped_OthersFindNothing", "2.8 V", anyLevel, func(c *Case) {
		c.hosts(noEthers)
		c.advertise(c.B, "here", c.B.Addr())
		c.B.StopNames()
		c.unknown(c.A, "here")
		ctx, cancel := c.A.WithTimeout(context.Background(), 15*time.Millisecond)
		defer cancel()
		var err error
		c.block(c.A, func() { _, err = c.A.HostByName(ctx, "beta", 0) })
		c.is(err, vipl.ErrNameService)
	}},
	{"VipNSShutdown", "StartedAgain_OldNamesGone", "2.8 V", anyLevel, func(c *Case) {
		c.advertise(c.B, "old", c.B.Addr())
		c.B.StopNames()
		c.is(c.B.StartNames(nil), nil)
		c.unknown(c.A, "old")
		c.advertise(c.B, "new", c.B.Addr())
		_, err := c.lookup(c.A, "new")
		c.is(err, nil)
	}},
}
