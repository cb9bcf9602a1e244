package metrics

import (
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/prometheus/client_golang/prometheus"
)

// sealer is what the Collector asks of a NIC besides, if its frames may be sealed
// (vipl.Config.Key); *vipl.NIC has it.
type sealer interface {
	SealStats() (stats seal.Stats, sealed bool)
}

var sealFields = []field[seal.Stats]{
	{"bobnet_seal_sessions_total", "Sessions with other hosts that were made, by either side.", false, func(s *seal.Stats) float64 { return float64(s.Sessions) }},
	{"bobnet_seal_transmit_frames_total", "Frames sealed and sent.", false, func(s *seal.Stats) float64 { return float64(s.Sealed) }},
	{"bobnet_seal_receive_frames_total", "Frames that came sealed and were passed on.", false, func(s *seal.Stats) float64 { return float64(s.Opened) }},
	{"bobnet_seal_handshake_frames_total", "Frames of handshakes and notices that came and were in order.", false, func(s *seal.Stats) float64 { return float64(s.Handshake) }},
	{"bobnet_seal_refusals_total", "Notices of other hosts that they could not open what this one had sent.", false, func(s *seal.Stats) float64 { return float64(s.Refused) }},
}

var sealDropped = family{"bobnet_seal_dropped_frames_total", "Frames that were not opened, or not sent, because of what protects them, by reason.", false, append(nicLabels[:2:2], "reason")}

// sealDrops are the reasons why frames are not opened, and why own ones are not sent.
var sealDrops = []reason[seal.Stats]{
	{"unsealed", "of a program that has no key", func(s *seal.Stats) uint64 { return s.Unsealed }},
	{"other_key", "handshakes, or frames to all, under a key that is none of ours", func(s *seal.Stats) uint64 { return s.OtherKey }},
	{"altered", "their tag is wrong", func(s *seal.Stats) uint64 { return s.Altered }},
	{"replayed", "they came before, or too late to tell", func(s *seal.Stats) uint64 { return s.Replayed }},
	{"no_session", "of sessions that are not known, or no more", func(s *seal.Stats) uint64 { return s.NoSession }},
	{"foreign", "their addresses are not those of their session, or they are for nobody", func(s *seal.Stats) uint64 { return s.Foreign }},
	{"malformed", "too short for their kind, or inside and outside contradict each other", func(s *seal.Stats) uint64 { return s.Malformed }},
	{"expired", "own frames that waited for a session in vain", func(s *seal.Stats) uint64 { return s.Expired }},
	{"crowded", "own frames for which there was no room to wait, and frames of handshakes", func(s *seal.Stats) uint64 { return s.Crowded }},
}

// collectSeal exports what a NIC counts of sealed frames, if its frames are.
func (c *Collector) collectSeal(ch chan<- prometheus.Metric, n NIC, name, port string) {
	x, ok := n.(sealer)
	if !ok {
		return
	}
	s, sealed := x.SealStats()
	if !sealed {
		return
	}
	emit(ch, c.seal, sealFields, &s, name, port)
	for i := range sealDrops {
		ch <- counter(c.sealDropped, sealDrops[i].value(&s), name, port, sealDrops[i].name)
	}
}
