package ring

import (
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/processor"
)

// burst is the number of bytes in one system call from which it pays that sender and receiver of the same
// host run on two processors. Below it, waking a thread on another processor takes longer than the copy.
const burst = 192 << 10

// crowd moves the sending thread to another processor if the receivers that it wakes run on its own.
type crowd struct {
	delay   processor.Delay
	sharing processor.Sharing
	load    processor.Load
	shares  bool // the thread has waited long for its processor before the last burst
}

// sent is called after a burst.
func (c *crowd) sent() {
	ns, ok := c.delay.Since()
	c.shares = ok && ns >= processor.LongWait
	if ok && c.sharing.Sent(driver.Now(), ns) && !c.load.Crowded() {
		processor.Migrate()
	}
}
