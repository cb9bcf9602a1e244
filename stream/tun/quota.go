package tun

import "github.com/bobnet-go/bobnet/ethertype"

const (
	// maxPeers bounds the streams of all neighbours together. Each uses the memory of two buffers.
	maxPeers = 1024
	// maxStreams bounds the streams with one station: at the same time, both ends may open one for
	// each address of the other.
	maxStreams = 2 * maxAddrs
)

// quota counts streams, including those that still exchange greetings, so that no station can
// exhaust the memory and the streams of the others.
type quota struct {
	all  int
	from map[ethertype.MAC]int
}

func newQuota() quota { return quota{from: map[ethertype.MAC]int{}} }

// admit counts one more stream with a station, and reports whether it is within the limits.
func (q *quota) admit(mac ethertype.MAC) bool {
	if q.all >= maxPeers || q.from[mac] >= maxStreams {
		return false
	}
	q.all++
	q.from[mac]++
	return true
}

// give undoes take.
func (q *quota) give(mac ethertype.MAC) {
	q.all--
	if q.from[mac]--; q.from[mac] == 0 {
		delete(q.from, mac)
	}
}
