package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"golang.org/x/sys/unix"
)

// talkers are a packet socket in each rank of a lab.
type talkers struct {
	lab *Lab
	fds []int
	to  *unix.SockaddrLinklayer
}

func newTalkers(t *testing.T, l *Lab) *talkers {
	t.Helper()
	all := &talkers{lab: l, fds: make([]int, l.Size())}
	for rank := range all.fds {
		all.fds[rank], all.to = rawSocket(t, l, rank) // bob0 has the same index everywhere
	}
	return all
}

// say broadcasts a frame of size bytes behind the Ethernet header from a rank.
func (a *talkers) say(from, size int, last bool) error {
	frame := make([]byte, ethertype.EthernetSize+size)
	mac := a.lab.MAC(from)
	copy(frame, ethertype.Broadcast[:])
	copy(frame[6:], mac[:])
	frame[12], frame[13], frame[14] = byte(ethertype.Default>>8), byte(ethertype.Default&0xff), byte(from)
	if last {
		frame[15] = 1
	}
	return unix.Sendto(a.fds[from], frame, 0, a.to)
}

// heard lists who hears whom, "0>1", when each rank broadcasts a frame under cuts,
// and each another one when these are over: what has not come by then is lost.
func (a *talkers) heard(t *testing.T, size int, cuts ...Cut) (all []string) {
	t.Helper()
	if err := a.lab.Cut(cuts...); err != nil {
		t.Fatal(err)
	}
	unplugged := slices.ContainsFunc(cuts, func(c Cut) bool { return c.Kind == Flap })
	for rank := range a.fds {
		if err := a.say(rank, size, false); err != nil && !unplugged {
			t.Errorf("rank %d is told that its frame is lost: %v", rank, err)
		}
	}
	if err := a.lab.heal(); err != nil {
		t.Fatal(err)
	}
	for rank := range a.fds {
		if err := a.say(rank, 100, true); err != nil {
			t.Fatal(err)
		}
	}
	frame := make([]byte, ethertype.EthernetSize+a.lab.MTU())
	for rank, fd := range a.fds {
		for left := len(a.fds) - 1; left > 0; {
			if n, _, err := unix.Recvfrom(fd, frame, 0); err != nil || n < 16 {
				t.Fatalf("rank %d: %d bytes, %v; cuts %v are over and have left something", rank, n, err, cuts)
			}
			if frame[15] == 1 {
				left--
			} else {
				all = append(all, fmt.Sprintf("%d>%d", frame[14], rank))
			}
		}
	}
	slices.Sort(all)
	return all
}

// among lists that all of each group hear each other.
func among(groups ...[]int) (all []string) {
	for _, g := range groups {
		for _, a := range g {
			for _, b := range g {
				if a != b {
					all = append(all, fmt.Sprintf("%d>%d", a, b))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

func cuts(t *testing.T, kind Kind, texts ...string) (all []Cut) {
	t.Helper()
	for _, text := range texts {
		c, err := ParseCut(kind, text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestCut: who hears whom under each cut and under several, and that everybody
// hears everybody afterwards.
func TestCut(t *testing.T) {
	const mtu = 9000
	flap := func(texts ...string) []Cut { return cuts(t, Flap, texts...) }
	partition := func(texts ...string) []Cut { return cuts(t, Partition, texts...) }
	drop := func(texts ...string) []Cut { return cuts(t, MTUDrop, texts...) }
	everybody := among([]int{0, 1, 2, 3})
	for _, narrow := range []bool{false, true} {
		l := newLab(t, Config{N: 4, MTU: mtu, Narrow: narrow, Topology: Bridge})
		ranks := newTalkers(t, l)
		for _, tt := range []struct {
			cuts []Cut
			size int
			want []string
		}{
			{nil, mtu, everybody},
			{partition("0,1/2,3"), mtu, among([]int{0, 1}, []int{2, 3})},
			{partition("2"), mtu, among([]int{0, 1, 3})},
			{partition("0/1/2"), mtu, nil},
			{partition("0-1/2-3", "0,2/1,3"), mtu, nil},
			{partition("0-1/2-3", "3"), mtu, among([]int{0, 1})},
			{flap("1"), mtu, among([]int{0, 2, 3})},
			{flap("1", "0,1"), mtu, among([]int{2, 3})},
			{append(flap("1"), partition("2")...), mtu, among([]int{0, 3})},
			{drop("1500"), 1500, everybody},
			{drop("1500"), mtu, nil},
			{drop("2000", "1500"), 1900, nil},
			{append(drop("1500"), partition("0,1/2,3")...), 1500, among([]int{0, 1}, []int{2, 3})},
		} {
			if !narrow && slices.ContainsFunc(tt.cuts, func(c Cut) bool { return c.Kind == MTUDrop }) {
				continue
			}
			if got := ranks.heard(t, tt.size, tt.cuts...); !slices.Equal(got, tt.want) {
				t.Errorf("narrow %t, frames of %d, cuts %v: %v, want %v", narrow, tt.size, tt.cuts, got, tt.want)
			}
		}
	}
}

// TestCutCarrier: the rank whose link flaps, and no other, has no carrier; the job
// after it finds the links whole.
func TestCutCarrier(t *testing.T) {
	l := newLab(t, Config{N: 2, Cuts: cuts(t, Flap, "1")})
	const state = `[ "$(cat /sys/class/net/bob0/carrier)" = 1 ] && echo $BOBNET_RANK up || echo $BOBNET_RANK down`
	const until = `[ $BOBNET_RANK = 0 ] || while [ "$(cat /sys/class/net/bob0/carrier)" = 1 ]; do :; done; `
	var told []string
	onCut := func(c Cut, begun bool) { told = append(told, fmt.Sprint(c.Kind, c, begun)) }
	out, err := script(t.Context(), t, l, until+state, RunOptions{OnCut: onCut})
	if err != nil || out != "0 up\n1 down\n" || !slices.Equal(told, []string{"flap 1 true"}) {
		t.Errorf("%v: %q, told %q", err, out, told)
	}
	if err := l.Exec(1, func() error { return checkInterface(l, 1) }); err != nil {
		t.Errorf("after the job: %v", err)
	}
}

// TestCutRefused: what the lab was not made for, and what is none.
func TestCutRefused(t *testing.T) {
	drop := Cut{Kind: MTUDrop, MTU: 1500}
	for _, l := range []*Lab{newLab(t, Config{N: 2}), newLab(t, Config{N: 2, Topology: Bridge})} {
		if err := l.Cut(drop); err == nil || !strings.Contains(err.Error(), "mtu-drop 1500: not supported by this lab") {
			t.Errorf("%v: %v", l.Topology(), err)
		}
		l.Close()
		if err := l.Cut(); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed lab: %v", err)
		}
	}
	for _, cfg := range []Config{
		{N: 2, Topology: Pair, Cuts: []Cut{drop}},
		{N: 2, MTU: 1500, Cuts: []Cut{drop}},
		{N: 2, Cuts: []Cut{{Kind: MTUDrop, MTU: 67}}},
		{N: 2, Cuts: []Cut{{Kind: Flap, Groups: [][]int{{2}}}}},
		{N: 3, Cuts: []Cut{{Kind: Partition, Groups: [][]int{{0, 1}, {1, 2}}}}},
		{N: 3, Cuts: []Cut{{Kind: Partition, Groups: [][]int{{0, 1, 2}}}}},
		{N: 3, Cuts: []Cut{{Kind: Partition, Groups: [][]int{{0, 1}}, After: -1}}},
	} {
		if err := cfg.Validate(); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func TestParseCut(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		text string
		want string // its String; "" if it is refused
	}{
		{Partition, "0,1/2,3@3s+5s", "0,1/2,3@3s+5s"},
		{Partition, "0-2/4@500ms", "0,1,2/4@500ms"},
		{Partition, "3+5s", "3+5s"},
		{Flap, "1@1m+20ms", "1@1m0s+20ms"},
		{Flap, "0-1", "0,1"},
		{MTUDrop, "1500@3s+5s", "1500@3s+5s"},
		{MTUDrop, "0,1", ""}, {MTUDrop, "", ""}, {MTUDrop, "1500@3+5s", ""}, {MTUDrop, "1500+0s", ""},
		{Flap, "", ""}, {Flap, "1,", ""}, {Flap, "2-1", ""}, {Flap, "-1", ""}, {Flap, "1@soon", ""}, {Flap, "0-99999999", ""},
		{Partition, "0//1", ""}, {Partition, "a/b", ""}, {Partition, "0+", ""},
	} {
		c, err := ParseCut(tt.kind, tt.text)
		if (err == nil) != (tt.want != "") || err == nil && c.String() != tt.want {
			t.Errorf("%v %q: %v, %v, want %q", tt.kind, tt.text, c, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), "(example: ") {
			t.Errorf("%v %q: %v names no example", tt.kind, tt.text, err)
		}
	}
}

// TestMoments: what is under way when, and in which order it is told.
func TestMoments(t *testing.T) {
	all := append(cuts(t, Partition, "0@1ms+3ms", "1"), cuts(t, Flap, "2@4ms", "0@2ms+1ms")...)
	var log []string
	err := keepTo(t.Context(), moments(all), func(active []Cut) error {
		log = append(log, fmt.Sprint(active))
		return nil
	}, func(c Cut, begun bool) { log = append(log, fmt.Sprint(c, begun)) })
	want := []string{
		"[1]", "1 true",
		"[0@1ms+3ms 1]", "0@1ms+3ms true",
		"[0@1ms+3ms 1 0@2ms+1ms]", "0@2ms+1ms true",
		"[0@1ms+3ms 1]", "0@2ms+1ms false",
		"[1 2@4ms]", "0@1ms+3ms false", "2@4ms true",
	}
	if err != nil || !slices.Equal(log, want) {
		t.Errorf("%v:\n%s\nwant\n%s", err, strings.Join(log, "\n"), strings.Join(want, "\n"))
	}
	failure := errors.New("failure")
	if err := keepTo(t.Context(), moments(all), func([]Cut) error { return failure }, nil); err != failure {
		t.Errorf("%v, want apply's error", err)
	}
}
