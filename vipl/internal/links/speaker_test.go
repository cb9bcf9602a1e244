package links

import (
	"os"
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// TestSpeaker: of several NICs on one interface one speaks, the first that is asked, until it has gone.
func TestSpeaker(t *testing.T) {
	info := transport.Info{Interface: "speakertest"}
	var all [3]Speaker
	for i := range all {
		if err := all[i].Init(&info); err != nil {
			t.Fatal(err)
		}
	}
	now := int64(1)
	if !all[1].Speaks(now) || all[0].Speaks(now) || all[2].Speaks(now) || !all[1].Speaks(now) {
		t.Fatal("not the second one alone speaks")
	}
	all[1].Release()
	if all[0].Speaks(now) {
		t.Error("it has tried twice within an instant")
	}
	now += speakEvery
	if !all[2].Speaks(now) || all[0].Speaks(now) {
		t.Error("not the third one alone speaks")
	}
	other := info
	other.BasePort = 7
	var s Speaker
	if err := s.Init(&other); err != nil || !s.Speaks(now) {
		t.Error("the speaker of another segment does not speak:", err)
	}
	for _, s := range []*Speaker{&all[0], &all[2], &s} {
		s.Release()
	}
}

// TestSpeakerSquatted: another user who has the abstract name does not silence a NIC of root's, and a NIC of
// another user's is silent while one of root's answers.
func TestSpeakerSquatted(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	info := transport.Info{Interface: "speakersquat"}
	var stranger, first, second Speaker
	for _, s := range []*Speaker{&stranger, &first, &second} {
		if err := s.Init(&info); err != nil {
			t.Fatal(err)
		}
	}
	stranger.root = false
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := vethtest.As(4001, func() error {
		return unix.Bind(fd, &unix.SockaddrUnix{Name: first.name.Abstract})
	}); err != nil {
		t.Fatal(err)
	}
	now := int64(1)
	if stranger.Speaks(now) || !first.Speaks(now) || second.Speaks(now) {
		t.Error("not the first NIC of root's alone speaks")
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	now += speakEvery
	if stranger.Speaks(now) {
		t.Error("a NIC of another user's speaks while root's does")
	}
	first.Release()
	now += yieldEvery
	if !stranger.Speaks(now) || !second.Speaks(now) {
		t.Error("the other user's and then root's do not speak")
	}
	now += yieldEvery
	if stranger.Speaks(now) {
		t.Error("the other user's NIC goes on while root's speaks")
	}
	stranger.Release()
	second.Release()
}
