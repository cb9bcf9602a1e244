package seal

import (
	"sync/atomic"

	counts "github.com/bobnet-go/bobnet/internal/counters"
)

// Stats are a link's counters since it was opened. Every received frame that was not passed on is in exactly
// one of the counters from Unsealed to Malformed, or was part of a handshake. If only the beginning of a long
// frame is genuine, the frame is in both Opened and Altered, because its beginning was passed on.
type Stats struct {
	Sessions  uint64 `metric:"bobnet_seal_sessions_total" help:"Sessions established with other hosts, by either side."`
	Opened    uint64 `metric:"bobnet_seal_receive_frames_total" help:"Encrypted frames received and decrypted."`
	Sealed    uint64 `metric:"bobnet_seal_transmit_frames_total" help:"Frames encrypted and sent."`
	Handshake uint64 `metric:"bobnet_seal_handshake_frames_total" help:"Valid frames of handshakes and notices received."`
	Unsealed  uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"unsealed" help:"unencrypted frames, from a program without a key"`
	OtherKey  uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"other_key" help:"handshakes or broadcasts under an unknown key"`
	Altered   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"altered" help:"invalid authentication tag"`
	Replayed  uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"replayed" help:"replayed, or too old to tell"`
	NoSession uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"no_session" help:"unknown or ended session"`
	Foreign   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"foreign" help:"addresses do not match the session, or no receiver"`
	Malformed uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"malformed" help:"too short for their kind, or inner and outer headers contradict each other"`
	Refused   uint64 `metric:"bobnet_seal_refusals_total" help:"Notices from other hosts that they could not decrypt this host's frames."`
	Expired   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"expired" help:"own frames that timed out waiting for a session"`
	Crowded   uint64 `metric:"bobnet_seal_dropped_frames_total" reason:"crowded" help:"own frames and handshake frames for which the queue was full"`
}

// Dropped returns the number of received frames that were not passed on, without those of
// handshakes.
func (s *Stats) Dropped() uint64 {
	return s.Unsealed + s.OtherKey + s.Altered + s.Replayed + s.NoSession + s.Foreign + s.Malformed
}

// counters are the atomic counters that Stats reports.
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
