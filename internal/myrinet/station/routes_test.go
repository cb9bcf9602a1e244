package station

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

func stationOf(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)} }

// routesTo returns routes to stations, which tell by their only turn where they lead.
func routesTo(stations ...int) (routes []myrinet.HostRoute) {
	for _, i := range stations {
		routes = append(routes, myrinet.HostRoute{To: stationOf(i), Turns: myrinet.Route{int8(i)}})
	}
	return routes
}

// expect fails unless the station has the number, and the route that leads to it or none.
func expect(t *testing.T, tab *Table, station, number int, routed bool) {
	t.Helper()
	i, ok := tab.Find(stationOf(station))
	if ok != (number >= 0) || ok && (i != number || tab.MAC(i) != stationOf(station)) {
		t.Errorf("station %d has number %d, %v; want %d", station, i, ok, number)
	}
	turns, ok := []byte(nil), false
	if number >= 0 {
		turns, ok = tab.Route(number)
	}
	if ok != routed || ok && !slices.Equal(turns, []byte{framing.PutTurn(station)}) {
		t.Errorf("the route to station %d is %v, %v; want %v", station, turns, ok, routed)
	}
}

// TestTableNumbers: a station keeps its number without a route, until the table is full and the
// number is idle.
func TestTableNumbers(t *testing.T) {
	busy := map[int]bool{1: true}
	var tab Table
	tab.Init(make([]byte, 4*EntrySize), stationOf(9), func(i int) bool { return !busy[i] })
	for _, routes := range [][]myrinet.HostRoute{routesTo(1, 2, 9), routesTo(3)} {
		if err := tab.Set(routes); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, &tab, 1, 1, false)
	expect(t, &tab, 2, 2, false)
	expect(t, &tab, 3, 3, true)
	expect(t, &tab, 9, 0, false) // the card itself
	if i, ok := tab.Add(stationOf(4)); i != 2 || !ok {
		t.Errorf("a full table gives %d, %v to another station; want 2, which is idle", i, ok)
	}
	expect(t, &tab, 4, 2, false)
	if _, ok := tab.Find(stationOf(2)); ok || tab.Len() != 4 || !slices.Equal(tab.Routed(nil), []int{3}) {
		t.Errorf("station 2 has a number: %v; %d entries, with routes %v", ok, tab.Len(), tab.Routed(nil))
	}
	busy[2] = true
	if i, ok := tab.Add(stationOf(5)); ok {
		t.Errorf("it gives number %d, which is not idle", i)
	}
	if _, ok := tab.Add(ethertype.Broadcast); ok {
		t.Error("a group has a number")
	}
}

// TestTableAll: entry 0 is for stations without a route of their own if it is that of the broadcast address.
func TestTableAll(t *testing.T) {
	var tab Table
	tab.Init(make([]byte, 4*EntrySize), ethertype.Broadcast, nil)
	routes := append(routesTo(1), myrinet.HostRoute{To: ethertype.Broadcast, Turns: myrinet.Route{2}})
	if err := tab.Set(routes); err != nil {
		t.Fatal(err)
	}
	i, _ := tab.Add(stationOf(2))
	expect(t, &tab, 1, 1, true)
	expect(t, &tab, 2, i, true)
	if err := tab.Set(nil); err != nil || len(tab.Routed(nil)) > 0 {
		t.Errorf("%v; there are routes: %v", err, tab.Routed(nil))
	}
	expect(t, &tab, 2, i, false)
}

// TestTableSet: a wrong route leaves the table as it was; routes without room leave out no others.
func TestTableSet(t *testing.T) {
	var tab Table
	tab.Init(make([]byte, 3*EntrySize), stationOf(9), nil)
	if err := tab.Set(routesTo(1)); err != nil {
		t.Fatal(err)
	}
	for want, routes := range map[string][]myrinet.HostRoute{
		"at most 24":     {{To: stationOf(1), Turns: make(myrinet.Route, MaxHops+1)}},
		"want -31 to 31": {{To: stationOf(1), Turns: myrinet.Route{32}}},
		"two routes":     routesTo(1, 2, 1),
		"multicast":      {{To: ethertype.Broadcast}},
	} {
		if err := tab.Set(append(routesTo(2), routes...)); !errors.Is(err, ErrRoutes) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
		expect(t, &tab, 1, 1, true)
		expect(t, &tab, 2, -1, false)
	}
	if err := tab.Set(routesTo(2, 3, 1)); !errors.Is(err, ErrRoutes) {
		t.Errorf("three routes in a table for two stations: %v", err)
	}
	expect(t, &tab, 1, 1, true)
	expect(t, &tab, 2, 2, true)
	expect(t, &tab, 3, -1, false)
}
