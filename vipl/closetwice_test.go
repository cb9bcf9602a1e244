package vipl_test

import (
	"testing"
	"testing/synctest"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// slowLink is a link that takes long to close.
type slowLink struct {
	transport.Link
	release chan struct{}
}

func (l *slowLink) Info() transport.Info {
	info := l.Link.Info()
	info.Virtual = false // several goroutines use the NIC
	return info
}

func (l *slowLink) Close() error {
	<-l.release
	return l.Link.Close()
}

// TestSecondClose: a second Close returns when the first has done its work, and not
// while the link and the memory are in use still; a third returns at once.
func TestSecondClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire, _ := memPair(1500)
		link := &slowLink{wire, make(chan struct{})}
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, WireOnly: true, Seed: 1, NoService: true})
		if err != nil {
			t.Fatal(err)
		}
		returned := make(chan int, 2)
		for i := range 2 {
			go func() {
				if err := n.Close(); err != nil {
					t.Errorf("Close %d: %v", i, err)
				}
				returned <- i
			}()
			synctest.Wait()
			if len(returned) > 0 {
				t.Errorf("call %d of Close has returned before the link was closed", i)
			}
		}
		close(link.release)
		synctest.Wait()
		if len(returned) != 2 {
			t.Errorf("%d of 2 calls of Close have returned", len(returned))
		}
		if err := n.Close(); err != nil {
			t.Errorf("a third Close: %v", err)
		}
	})
}
