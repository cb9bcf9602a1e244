package vipl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestConnectTimeout: an attempt without a deadline of its own takes as long as
// the VI's ConnectTimeout says, shorter or longer than the default; one that has a
// deadline goes by that.
func TestConnectTimeout(t *testing.T) {
	nobody := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, Port: service}
	attempts := map[string]func(d *duo, v *vipl.VI) error{
		"Connect":          func(_ *duo, v *vipl.VI) error { return v.Connect(bg, nobody, nil) },
		"ConnectStart":     func(_ *duo, v *vipl.VI) error { return v.ConnectStart(nobody, nil) },
		"ConnectPeer":      func(_ *duo, v *vipl.VI) error { return v.ConnectPeer(bg, nobody, nil) },
		"ConnectPeerStart": func(_ *duo, v *vipl.VI) error { return v.ConnectPeerStart(nobody, nil) },
		"Accept":           func(d *duo, v *vipl.VI) error { return d.request().Accept(bg, v) },
		"AcceptStart":      func(d *duo, v *vipl.VI) error { return d.request().AcceptStart(v) },
	}
	for name, attempt := range attempts {
		for _, limit := range []time.Duration{100 * time.Millisecond, 0, time.Minute} {
			t.Run(name+"/"+limit.String(), func(t *testing.T) {
				d := newDuo(t, nil, nil)
				v, err := d.na.CreateVI(&vipl.Attributes{ConnectTimeout: limit}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := limit
				if want == 0 {
					want = vipl.DefaultConnectTimeout
				}
				began := d.na.Now()
				for err = attempt(d, v); err == nil || err == vipl.ErrNotDone; err = v.ConnectDone() {
					*d.links[0].clock += int64(time.Millisecond)
				}
				if took := time.Duration(d.na.Now() - began); !errors.Is(err, vipl.ErrTimeout) || took < want || took > want+want/10 {
					t.Errorf("%v after %v, want a time-out after %v", err, took, want)
				}
			})
		}
	}
	d := newDuo(t, nil, nil)
	v := d.idle(d.na)
	ctx, cancel := d.na.WithTimeout(bg, time.Second)
	defer cancel()
	began := d.na.Now()
	if err := v.Connect(ctx, nobody, nil); !errors.Is(err, vipl.ErrTimeout) || d.na.Now()-began > int64(2*time.Second) {
		t.Errorf("%v after %v, want a time-out after a second", err, time.Duration(d.na.Now()-began))
	}
	if _, err := d.na.CreateVI(&vipl.Attributes{ConnectTimeout: -1}, nil, nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("negative: %v", err)
	}
}

// request returns a request at a, whose requester goes silent.
func (d *duo) request() *vipl.Request {
	d.t.Helper()
	l, err := d.na.Listen(service)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.idle(d.nb).ConnectStart(l.Addr(), nil); err != nil {
		d.t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}
