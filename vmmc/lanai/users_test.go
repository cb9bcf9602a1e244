package lanai_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// openAs opens a card as another user.
func openAs(t *testing.T, veth *vethtest.Pair, side, uid int) (c *lanai.Card, err error) {
	t.Helper()
	err = veth.In(side, func() error {
		return vethtest.As(uid, func() (err error) {
			c, err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name})
			return err
		})
	})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// TestServedUsers: programs of other users are served only if the card says so. The card knows whose they
// are, for policies on both sides of the cable, and each user has a part of the card and no more.
func TestServedUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	const alice, bob = 4321, 4322
	veth := vethtest.New(t, 1500)
	_, stop := served(t, veth, 0, false, lanai.Config{})
	if _, err := openAs(t, veth, 0, alice); err == nil || !strings.Contains(err.Error(), "--any-user") {
		t.Errorf("%v, want advice to use --any-user", err)
	}
	stop()
	card, _ := served(t, veth, 0, true, lanai.Config{Processes: 8, Memory: 4096})
	served(t, veth, 1, true, lanai.Config{})
	var cards [2][2]*lanai.Card // by side and user
	for side := range cards {
		for i, uid := range []int{alice, bob} {
			var err error
			if cards[side][i], err = openAs(t, veth, side, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: cards[0][0], Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	board, err := p.AllocMem(4096)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Export(board, 7, vmmc.Policy{Users: []uint32{alice}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Export(make([]byte, 4096), 8, vmmc.Everybody, nil); !errors.Is(err, vmmc.ErrArgument) || !strings.Contains(err.Error(), "AllocMem") {
		t.Errorf("memory that the card does not reach: %v", err)
	}
	for side := range cards {
		for i, want := range []error{nil, vmmc.ErrDenied} {
			q, err := vmmc.Open(ctx, &vmmc.Config{Card: cards[side][i], Process: 2})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = q.Import(ctx, vmmc.Name{Process: 1, ID: 7}); !errors.Is(err, want) {
				t.Errorf("the import of user %d at side %d: %v, want %v", i, side, err, want)
			}
			if side == 0 && i == 1 {
				if _, err := vmmc.Open(ctx, &vmmc.Config{Card: cards[0][1], Process: 1}); !errors.Is(err, vmmc.ErrTaken) {
					t.Errorf("a number that another user's process has: %v", err)
				}
			}
			q.Close()
		}
	}

	var all []*vmmc.Process
	for number := uint32(10); ; number++ {
		q, err := vmmc.Open(ctx, &vmmc.Config{Card: cards[0][1], Process: number})
		if err != nil {
			if !errors.Is(err, vmmc.ErrNoRoom) || !strings.Contains(err.Error(), "user 4322 has 2 processes") {
				t.Errorf("%v", err)
			}
			break
		}
		all = append(all, q)
	}
	if len(all) != 8/4 {
		t.Errorf("a user has %d processes of 8, want 2", len(all))
	}
	if _, err := all[0].AllocMem(3 * 4096 * 4096 / 4); !errors.Is(err, vmmc.ErrNoRoom) {
		t.Errorf("more memory than a user may have: %v", err)
	}
	mem, err := all[0].AllocMem(4096 * 4096 / 4)
	if err != nil {
		t.Fatal(err)
	}
	all[0].FreeMem(mem)
	if mem, err = all[1].AllocMem(4096 * 4096 / 4); err != nil {
		t.Errorf("memory that has been given back: %v", err)
	}
	for _, q := range all {
		q.Close()
	}
	p.Close()
	if err := left(card); err != nil {
		t.Error(err)
	}
	q, err := vmmc.Open(ctx, &vmmc.Config{Card: cards[0][1], Process: 10})
	if err != nil {
		t.Fatal(err)
	}
	q.Close()
	mem[0] = 1 // it stays until FreeMem
}

// TestKeptParts: a process that ends while another one may still write to its memory by number keeps its part
// of the card's incoming page table, and its place among its user's processes: one user cannot take all parts.
func TestKeptParts(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	veth := vethtest.New(t, 1500)
	served(t, veth, 0, true, lanai.Config{MAC: mac(1), Routes: []myrinet.HostRoute{{To: mac(2)}}, Processes: 8, Memory: 4096})
	near := openVeth(t, veth, 0, lanai.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	silent, err := vmmc.Open(ctx, &vmmc.Config{Card: near, Process: 1}) // it knows nothing of what others grant it
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	alice, err := openAs(t, veth, 0, 4321)
	if err != nil {
		t.Fatal(err)
	}
	rounds := 0
	for ; rounds < 3*8; rounds++ {
		p, err := vmmc.Open(ctx, &vmmc.Config{Card: alice, Process: 10})
		if err != nil {
			if !errors.Is(err, vmmc.ErrNoRoom) || !strings.Contains(err.Error(), "user 4321 has 2 processes") {
				t.Errorf("round %d: %v", rounds, err)
			}
			break
		}
		alice.Grant(10, near.Addr(1))
		p.Close()
	}
	if rounds != 8/4 {
		t.Errorf("a user has had %d parts of the table, want 2", rounds)
	}
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: near, Process: 2})
	if err != nil {
		t.Fatalf("a process of another user: %v", err)
	}
	p.Close()
}
