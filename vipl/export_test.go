package vipl

import (
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/directory"
)

// LongFrames has long frames be those of an MTU.
func (n *NIC) LongFrames(mtu int) { n.m.Long.Size = mtu - ethertype.BaseSize }

// Fetched returns how many long frames went straight to where they belong.
func (n *NIC) Fetched() uint64 { return n.m.Long.Fetched }

// Short returns how many messages have gone by the fast path, out or in.
func (n *NIC) Short() uint64 { return n.m.FastPath }

// ForgetPrediction keeps the frame that comes next from the fast path.
func (v *VI) ForgetPrediction() { v.conn.ForgetPrediction() }

// FindTimer makes the time of the next timer exact.
func (n *NIC) FindTimer() { n.m.FindTimer() }

// Wide reports whether v sends long frames.
func (v *VI) Wide() bool {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	return v.conn.Path.UsesLong()
}

// Waiting reports whether a caller leads, and how many follow it.
func (n *NIC) Waiting() (led bool, followers int) {
	n.eng.Lock()
	defer n.eng.Unlock()
	s := n.eng.State(n.m.Now())
	return strings.HasPrefix(s.Driver, "caller"), s.Followers
}

// FlushLog waits until what has been logged has been handled.
func (n *NIC) FlushLog() { n.logs.Flush(time.Minute) }

// InRing returns how many entries the queue keeps, those of closed VIs included.
func (q *CQ) InRing() int { return q.ring.Len() }

// MaxReadDepth is maxReadDepth, for tests.
const MaxReadDepth = maxReadDepth

// MaxVIs is maxVIs, for tests.
const MaxVIs = maxVIs

// MaxRegisterBytes is maxRegisterBytes, for tests.
const MaxRegisterBytes = maxRegisterBytes

// MaxHostName is directory.MaxHostName, for tests.
const MaxHostName = directory.MaxHostName

// MaxDiscriminator is maxDiscriminator, for tests.
const MaxDiscriminator = maxDiscriminator
