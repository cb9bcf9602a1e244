package paper

import (
	"fmt"
	"reflect"
	"testing"
)

// models are the configurations of the profiles. fields maps the fields of each configuration to
// the constants of a paper.
var models = map[string]struct {
	config any
	fields map[string]string
}{
	"now": {nowConfig(), map[string]string{
		"fabric.CutThrough": "switch, cut-through", "fabric.Cable": "cable", "fabric.Slack": "switch, buffer of an input", "fabric.Timeout": "blocked packet", "Config.SendersStay": "residence of senders", "wake": "host, a thread woken",
		"Config.Card.Timing.Clock": "clock of the card", "Config.Card.Timing.DMASetup": "start of a DMA", "Config.Card.Timing.DMABandwidth": "bus, to the host",
		"Config.Card.Timing.DMAFetch": "bus, from the host", "Config.Card.Timing.PIORead": "I/O read", "Config.Card.Timing.PIOWrite": "I/O write", "Config.Card.Timing.Interrupt": "interrupt",
		"Config.Frames": "endpoint frames", "Config.Attempts": "attempts of a turn", "Config.Residence": "residence",
		"Config.Channels.Channels": "channels", "Config.Channels.Timeout": "time-out", "Config.Channels.Scan": "scan", "Config.Channels.Tries": "tries",
		"Config.Costs.Send": "program, a message sent and received", "Config.Costs.Header": "program, of these a private header", "Config.Costs.Receive": "program, of these to receive a packet",
		"Config.Costs.Bind": "program, a channel looked up", "Config.Costs.Arrive": "program, a channel looked up", "Config.Costs.Loiter": "program, a failed attempt to send",
		"Config.Costs.Check": "program, a tag checked", "Config.Costs.Answer": "program, an ACK built or processed", "Config.Costs.Answered": "program, an ACK built or processed",
	}},
	"vmmc": {*newVMMCModel(), map[string]string{
		"timing.Clock": "clock of the card", "timing.DMASetup": "start of a DMA", "timing.DMABandwidth": "rate of the bus",
		"timing.PIORead": "I/O read", "timing.PIOWrite": "I/O write", "timing.Interrupt": "interrupt",
		"costs.Pick": "program, a send started", "costs.Short": "program, a send started", "costs.Launch": "program, a send started",
		"costs.Word": "program, a word of a short request", "costs.Long": "program, a long request taken up", "costs.Chunk": "program, a chunk",
		"costs.Leave": "program, leaving the tight loop", "costs.Receive": "program, a packet received", "costs.Answer": "program, an answer of a channel taken",
		"send": "host, a send", "call": "host, a remote procedure call", "bcopy": "host, rate of long copies",
	}},
	"fastethernet": {*FastEthernet(), map[string]string{
		"Bandwidth": "bandwidth", "Routine": "routine, shortest frame", "PerFull": "routine, full frame", "Devices": "devices", "Turn": "turn",
	}},
	"yellowfin": {*Yellowfin(), map[string]string{
		"Bandwidth": "bandwidth", "Bus": "bus", "Routine": "routine, shortest frame", "PerFull": "routine, full frame", "Devices": "devices", "Turn": "turn",
	}},
	"millennium": {*newVIAModel(), map[string]string{
		"timing.Clock": "clock of the card", "timing.DMASetup": "start of a DMA", "timing.DMABandwidth": "rate of the bus",
		"timing.PIORead": "I/O read", "timing.PIOWrite": "I/O write", "timing.Interrupt": "interrupt",
		"costs.Look": "program, a doorbell checked", "costs.Send": "program, a message sent", "costs.Receive": "program, a packet received",
		"send": "host, a message sent", "receive": "host, a message received", "poll": "host, AMVIA's poll routine", "memory": "host, rate of copies",
		"credits[0]": "credits, short messages", "credits[1]": "credits, medium messages", "clock": "clock of the host's processor",
		"recycle": "host, a send descriptor recycled", "lean": "host, layers over VIA", "fabric.Bandwidth": "link",
		"store": "applications, a store in shared memory", "storeRate": "applications, rate of such stores", "em3d.Degree": "EM3D, neighbours of a particle",
		"cg.Row": "conjugate gradient, elements of a row", "cg.Steps": "conjugate gradient, elements of a row", "em3d.Steps": "EM3D, neighbours of a particle",
		"teapot.Pixel": "ray tracing, a pixel", "teapot.Width": "ray tracing, a pixel", "teapot.Height": "ray tracing, a pixel", "teapot.Tile": "ray tracing, a pixel", "teapot.Teapot": "ray tracing, a pixel",
		"cg.N": "conjugate gradient, elements of a row", "em3d.Particles": "EM3D, neighbours of a particle", "em3d.Remote": "EM3D, neighbours of a particle", "operation": "applications, an arithmetic operation", "now": "applications, speed of the NOW's processor",
	}},
}

// numbers calls each for the nonzero numbers of a value, with their names.
func numbers(v reflect.Value, name string, each func(name string)) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		numbers(v.Elem(), name, each)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			if name != "" {
				field = name + "." + field
			}
			numbers(v.Field(i), field, each)
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			numbers(v.Index(i), fmt.Sprintf("%s[%d]", name, i), each)
		}
	case (v.CanInt() || v.CanUint() || v.CanFloat()) && !v.IsZero():
		each(name)
	}
}

// TestConstantsAreListed checks that each number of a profile's configuration is a constant of the
// profile, so that no number has an effect without being listed.
func TestConstantsAreListed(t *testing.T) {
	for _, p := range Papers() {
		constants := map[string]bool{}
		for _, profile := range p.Profiles {
			for _, c := range profile.Constants {
				constants[c.Name] = true
			}
		}
		for _, profile := range p.Profiles {
			m, have := models[profile.Name]
			if !have {
				t.Errorf("this test does not know the configuration of profile %s", profile.Name)
				continue
			}
			seen := map[string]bool{}
			numbers(reflect.ValueOf(m.config), "", func(field string) {
				seen[field] = true
				if c := m.fields[field]; !constants[c] {
					t.Errorf("%s: no constant of the profile lists %s (%q)", profile.Name, field, c)
				}
			})
			for field := range m.fields {
				if !seen[field] {
					t.Errorf("%s: the configuration has no %s, or it is 0", profile.Name, field)
				}
			}
		}
	}
}
