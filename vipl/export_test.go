package vipl

import (
	"reflect"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/directory"
)

// EachStat calls f with the counters of a connection in which each number is different, and with
// those that statsOf makes of them.
func EachStat(f func(name string, conn, vi any)) {
	var c conn.Stats
	from := reflect.ValueOf(&c).Elem()
	for i := range from.NumField() {
		if x := from.Field(i); x.CanUint() {
			x.SetUint(uint64(i + 1))
		} else {
			x.Index(i).SetUint(uint64(i + 1))
		}
	}
	of := statsOf(&c)
	to := reflect.ValueOf(of)
	f("fields", from.NumField(), to.NumField())
	for i := range to.NumField() {
		name, as := to.Type().Field(i).Name, from.Field(0).Type()
		want := from.FieldByName(name)
		if want.Kind() == reflect.Array {
			as = want.Type()
		}
		f(name, want.Interface(), to.Field(i).Convert(as).Interface())
	}
}

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
