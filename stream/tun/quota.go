package tun

import "github.com/bobnet-go/bobnet/ethertype"

const (
	// maxPeers bounds the streams of all neighbours together. Each takes the memory of two
	// buffers.
	maxPeers = 1024
	// maxStreams bounds the streams with one station: both ends may open one for each of the
	// other's addresses at the same time.
	maxStreams = 2 * maxAddrs
)

// quota counts streams, those that are still greeting included, so that no station can take
// the memory and the places of the others.
type quota struct {
	all  int
	from map[ethertype.MAC]int
}

func newQuota() quota { return quota{from: map[ethertype.MAC]int{}} }

// take counts one more stream with a station, and reports whether there may be one.
func (q *quota) take(mac ethertype.MAC) bool {
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
