package share_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// alone are routes of a direct cable, without a mapper.
var alone = plain.Config{Routes: []myrinet.HostRoute{{To: ethertype.Broadcast}}}

// serve has a card be served at a side of a pair. stop ends it, and can be called twice.
func serve(t *testing.T, p *vethtest.Pair, side int) (card *share.Card, stop func()) {
	t.Helper()
	return serveUsers(t, p, side, false)
}

// serveUsers is serve, for programs of any user or only those of this one.
func serveUsers(t *testing.T, p *vethtest.Pair, side int, any bool) (card *share.Card, stop func()) {
	t.Helper()
	err := p.In(side, func() (err error) {
		card, err = share.Open(t.Context(), &share.Config{AnyUser: any, OpenConfig: plain.OpenConfig{
			Interface: vethtest.Name, Config: alone, Cable: myrinet.LiveOptions{Silence: time.Minute}, // whose goroutines may have to wait
		}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := card.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return card, stop
}

func attach(t *testing.T, p *vethtest.Pair, side int) *share.Link {
	t.Helper()
	var l *share.Link
	err := p.In(side, func() (err error) {
		l, err = share.Attach(t.Context(), &plain.OpenConfig{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// reach sends from one link to the other until something comes, so that the cards have found
// each other and the rings are there, and takes all that comes. What comes to from is lost.
func reach(t *testing.T, from, to transport.Link) {
	t.Helper()
	view := make([][]byte, 1)
	for end, n := to.Now()+int64(time.Minute), 0; n == 0; {
		send(t, from, to, "probe")
		if _, err := from.Recv(make([][]byte, 1)); err != nil { // a program looks, and so forgets the rings of a card that has ended
			t.Fatal(err)
		}
		err := to.Wait(to.Now() + int64(10*time.Millisecond))
		if err == nil {
			n, err = to.Recv(view)
		}
		if err != nil {
			t.Fatal(err)
		}
		if to.Now() > end {
			t.Fatalf("nothing comes: %+v, %+v", from.Stats(), to.Stats())
		}
	}
	send(t, from, to, "last")
	for get(t, to) != "last" {
	}
}

// send sends a payload from one link to another.
func send(t *testing.T, from, to transport.Link, payload string) {
	t.Helper()
	f := linktest.NewFrame(from.Info(), to.Info(), to.Info().Ports.Lo, []byte(payload))
	if n, err := from.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
}

// get returns the next payload that comes.
func get(t *testing.T, l transport.Link) string {
	t.Helper()
	views := make([][]byte, 1)
	for end := l.Now() + int64(time.Minute); ; {
		n, err := l.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return string(views[0][ethertype.HeaderSize:])
		}
		if l.Now() > end {
			t.Fatalf("nothing comes: %+v", l.Stats())
		}
		if err := l.Wait(l.Now() + int64(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShared: several programs at one card each get what is for their ports, and what one
// sends from another's port, or with another's address, does not leave the card.
func TestShared(t *testing.T) {
	p := vethtest.New(t, 1500)
	card, _ := serve(t, p, 0)
	serve(t, p, 1)
	a, b, far := attach(t, p, 0), attach(t, p, 0), attach(t, p, 1)
	if a.Info().Ports == b.Info().Ports || a.Info().MTU != card.Link().Info().MTU {
		t.Fatalf("the programs have %+v and %+v", a.Info(), b.Info())
	}
	for _, l := range []transport.Link{a, b} {
		reach(t, far, l)
		reach(t, l, far)
	}
	send(t, far, a, "to a")
	send(t, far, b, "to b")
	if x, y := get(t, a), get(t, b); x != "to a" || y != "to b" {
		t.Errorf("the programs get %q and %q", x, y)
	}
	forged := linktest.NewFrame(b.Info(), far.Info(), far.Info().Ports.Lo, []byte("forged"))
	wrong := linktest.NewFrame(a.Info(), far.Info(), far.Info().Ports.Lo, []byte("forged"))
	copy(wrong[framing.OffsetSrc:], "\x02\x00\x00\x00\x00\x07")
	if n, err := a.Send([]transport.Frame{{Head: forged}, {Head: wrong}, {Head: forged[:10]}}); n != 3 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	send(t, a, far, "from a")
	if got := get(t, far); got != "from a" {
		t.Errorf("%q has left the card", got)
	}
	if programs, forged, unsent := card.Stats(); programs != 2 || forged != 3 || unsent != 0 {
		t.Errorf("%d programs, %d forged frames, %d not sent", programs, forged, unsent)
	}
	for want, cfg := range map[string]plain.Config{
		"address already in use":                     {Ports: a.Info().Ports},
		"carries EtherType 0x88b5":                   {EtherType: 0x88b7},
		"ports below 1024 are reserved for the card": {Ports: transport.PortRange{Lo: 5, Hi: 5}},
	} {
		err := p.In(0, func() error {
			_, err := share.Attach(t.Context(), &plain.OpenConfig{Interface: vethtest.Name, Config: cfg})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLink runs the links' suite between programs at two shared cards.
func TestLink(t *testing.T) {
	p := vethtest.New(t, 1500)
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		serve(t, p, 0)
		serve(t, p, 1)
		first := attach(t, p, 0)
		pair := linktest.Pair{A: first, B: attach(t, p, 1), C: attach(t, p, 1)}
		return pair
	})
}

// TestCardEnds: programs whose card ends are told so, and go on with the next one.
func TestCardEnds(t *testing.T) {
	p := vethtest.New(t, 1500)
	_, stop := serve(t, p, 0)
	serve(t, p, 1)
	a, far := attach(t, p, 0), attach(t, p, 1)
	check := func() (err error) { return errors.Join(p.In(0, func() error { err = a.Check(); return nil }), err) }
	if err := check(); err != nil {
		t.Fatal(err)
	}
	reach(t, a, far)
	stop()
	for end := time.Now().Add(time.Minute); ; {
		err := check()
		if errors.Is(err, transport.ErrLinkDown) && errors.Is(err, share.ErrNoCard) && strings.Contains(err.Error(), "has ended") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Check says %v", err)
		}
	}
	serve(t, p, 0)
	if err := check(); err != nil {
		t.Fatal(err)
	}
	reach(t, a, far)
	reach(t, far, a)
}

// TestNoCard: without a card's process OpenOrAttach opens a card, and Attach says what to do.
func TestNoCard(t *testing.T) {
	p := vethtest.New(t, 1500)
	err := p.In(0, func() error {
		_, err := share.Attach(t.Context(), &plain.OpenConfig{Interface: vethtest.Name})
		if !errors.Is(err, share.ErrNoCard) || !strings.Contains(err.Error(), "bobnet card --iface "+vethtest.Name) {
			t.Errorf("%v", err)
		}
		l, err := share.OpenOrAttach(t.Context(), &plain.OpenConfig{Interface: vethtest.Name})
		if err != nil {
			return err
		}
		defer l.Close()
		if _, shared := l.(*share.Link); shared || l.Info().Driver != "myrinet" {
			t.Errorf("%T, %+v", l, l.Info())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOtherVersion: a program of another version than the card's is told which of the two to restart.
func TestOtherVersion(t *testing.T) {
	const name, version = "sample", 2
	p := vethtest.New(t, 1500)
	if err := p.In(0, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		desk, err := share.OpenDesk(at, false)
		if err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			desk.Serve(t.Context(), share.Welcome{Program: name, Version: version}, func(conn *net.UnixConn, _ uint32) { conn.Read(make([]byte, 1)) })
		}()
		defer func() {
			desk.Close()
			<-ended
		}()
		for n, want := range []string{"restart this program with", "", "restart the card (bobnet card) with"} {
			conn, _, err := share.Dial(t.Context(), at, name, version-1+n)
			if err == nil {
				conn.Close()
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("a program of version %d at a card of version %d: %v, want %q", version-1+n, version, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestInterfaceGone: a program whose card's interface is gone can wait for no other card there.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	_, stop := serve(t, p, 0)
	a := attach(t, p, 0)
	stop()
	if err := errors.Join(p.Delete(), p.Join(1500)); err != nil {
		t.Fatal(err)
	}
	serve(t, p, 0)
	for end := time.Now().Add(time.Minute); !errors.Is(a.Check(), transport.ErrGone); {
		if time.Now().After(end) {
			t.Fatalf("Check says %v, want ErrGone", a.Check())
		}
	}
}
