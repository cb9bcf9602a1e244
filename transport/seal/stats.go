package seal

import (
	"sync/atomic"

	counts "github.com/bobnet-go/bobnet/internal/counters"
)

// Stats are a link's counters since it was opened. Every received frame that was not passed on is in exactly
// one of the counters from Unsealed to Malformed, or was part of a handshake. If only the beginning of a long
// frame is genuine, the frame is in both Opened and Altered, because its beginning was passed on.
type Stats struct {
	Sessions  uint64 `metric:"bobnet_seal_sessions_total" help:"Sessions with other hosts that were made, by either side."`
	Opened    uint64 `metric:"bobnet_seal_receive_frames_total" help:"Frames that came sealed and were passed on."`
	Sealed    uint64 `metric:"bobnet_seal_transmit_frames_total" help:"Frames sealed and sent."`
	Handshake uint64 `metric:"bobnet_seal_handshake_frames_total" help:"Frames of handshakes and notices that came and were in order."`
	Unsealed  uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"unsealed" help:"of a program that has no key"`
	OtherKey  uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"other_key" help:"handshakes, or frames to all, under a key that is none of ours"`
	Altered   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"altered" help:"their tag is wrong"`
	Replayed  uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"replayed" help:"they came before, or too late to tell"`
	NoSession uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"no_session" help:"of sessions that are not known, or no more"`
	Foreign   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"foreign" help:"their addresses are not those of their session, or they are for nobody"`
	Malformed uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"malformed" help:"too short for their kind, or inside and outside contradict each other"`
	Refused   uint64 `metric:"bobnet_seal_refusals_total" help:"Notices of other hosts that they could not open what this one had sent."`
	Expired   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"expired" help:"own frames that waited for a session in vain"`
	Crowded   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"crowded" help:"own frames for which there was no room to wait, and frames of handshakes"`
}

// Dropped returns the number of received frames that were not passed on, without those of
// handshakes.
func (s *Stats) Dropped() uint64 {
	return s.Unsealed + s.OtherKey + s.Altered + s.Replayed + s.NoSession + s.Foreign + s.Malformed
}

// counters is Stats while they count.
type counters struct {
	Sessions, Opened, Sealed, Handshake                                                    atomic.Uint64
	Unsealed, OtherKey, Altered, Replayed, NoSession, Foreign, Malformed                   atomic.Uint64
	Refused, Expired, Crowded                                                              atomic.Uint64
	ownTx, ownTxBytes, ownTxCalls, ownRx, ownRxBytes, ownRxCalls, moreTxBytes, moreRxBytes atomic.Uint64 // for Link.Stats
}

func (c *counters) stats() (s Stats) {
	counts.Load(&s, c)
	return s
}
