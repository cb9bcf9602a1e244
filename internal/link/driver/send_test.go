package driver

import (
	"testing"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

func TestSendVerdict(t *testing.T) {
	for errno, want := range map[unix.Errno]struct {
		verdict Verdict
		err     error
	}{
		0:             {Taken, nil},
		unix.EINTR:    {Again, nil},
		unix.EAGAIN:   {Full, nil},
		unix.ENOBUFS:  {Full, nil},
		unix.EMSGSIZE: {Stop, transport.ErrFrameSize},
		unix.ENETDOWN: {Stop, transport.ErrLinkDown},
		unix.ENXIO:    {Stop, transport.ErrGone},
		unix.EINVAL:   {Refuse, nil},
		unix.EFAULT:   {Refuse, nil},
	} {
		if verdict, err := SendVerdict(errno); verdict != want.verdict || err != want.err {
			t.Errorf("%v: %v, %v; want %v, %v", errno, verdict, err, want.verdict, want.err)
		}
	}
}
