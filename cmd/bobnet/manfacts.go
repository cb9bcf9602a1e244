package main

import (
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// exitStatus returns the exit codes of a verb.
func exitStatus(cmd *cobra.Command) []entry {
	list := []entry{
		{"0", "Success."},
		{"1", "Failure; the message says of what."},
		{"2", "Wrong usage: a flag, a value, a file or an interface that does not exist or makes no sense. Nothing was started."},
	}
	switch cmd.Name() {
	case "run", "lab":
		list[1].text = "A rank failed with 1, or the job could not be started."
		list = append(list, entry{"126, 127", "The command cannot be run, or is not found."},
			entry{"other", "The worst exit code of the ranks; 128 plus the signal for a rank that a signal has killed."})
	case "doctor":
		list[1].text = "At least one finding has the level fail."
	case "ping":
		list[1].text = "No echo was answered, or another failure."
	case "map":
		list[1].text = "The map differs from the truth, or another failure."
	case "top":
		list[1].text = "An address that was named does not answer, or there was nobody to ask."
	case "bobnet":
		list = append(list, entry{"126, 127", "lab and run: the command cannot be run, or is not found."},
			entry{"other", "lab and run: the worst exit code of the ranks."})
	}
	return append(list, entry{"128 plus n", "Signal n interrupted it: 130 after Ctrl-C."})
}

// environment are the variables that Bobnet reads, and those by which lab and run tell programs
// what they are.
var environment = []entry{
	{vipl.EnvInterface, "Interface to use, by name or MAC: the default of --iface. lab sets it."},
	{vipl.EnvDriver, "How frames travel: the default of --driver."},
	{vipl.EnvPeers, "IP addresses of the stations, with commas between them, for driver udp."},
	{vipl.EnvKeyFile, "File with the key of sealed frames: the default of --key."},
	{vipl.EnvKey, "The key itself, as 64 hexadecimal digits."},
	{vipl.EnvTimeout, "How long the ranks of a job wait for each other to appear, such as 90s."},
	{vipl.EnvFault, "Faults on purpose on every frame sent, such as loss=0.01,seed=5. lab sets it."},
	{agent.EnvPath, "Path of the agent's Unix socket."},
	{job.EnvRank, "Rank of this process in its job. lab and run set it."},
	{job.EnvSize, "Number of ranks of the job. lab and run set it."},
	{job.EnvJob, "Name of the job. lab and run set it."},
	{lab.EnvProcessors, "With --bind, the number of processors of the ranks. lab and run set it."},
	{envMetrics, "Address at which a rank serves its metrics. lab --metrics sets it."},
	{plain.EnvHost, "Name of this host on an emulated Myrinet. lab --fabric sets it."},
	{splitc.EnvLayer, "Communication layer of Split-C programs."},
	{splitc.EnvHeap, "Size in bytes of a Split-C heap; k, m and g may follow."},
}

// environmentOf returns the variables that a verb reads or sets: all for the whole command.
func environmentOf(cmd *cobra.Command) (list []entry) {
	has := func(flag string) bool { return cmd.Flags().Lookup(flag) != nil }
	named := map[string]bool{
		vipl.EnvInterface: has("iface"), vipl.EnvDriver: has("driver") && has("iface"), vipl.EnvPeers: has("driver") && has("iface"),
		vipl.EnvKeyFile: has("key"), vipl.EnvKey: has("key"), vipl.EnvFault: has("driver") && has("iface"),
		agent.EnvPath: has("driver") && has("iface"),
	}
	switch cmd.Name() {
	case "lab":
		for _, name := range []string{vipl.EnvInterface, vipl.EnvFault, envMetrics, plain.EnvHost, vipl.EnvDriver} {
			named[name] = true
		}
		fallthrough
	case "run":
		for _, name := range []string{job.EnvRank, job.EnvSize, job.EnvJob, lab.EnvProcessors} {
			named[name] = true
		}
	}
	for _, e := range environment {
		if cmd.Name() == "bobnet" || named[e.name] {
			list = append(list, e)
		}
	}
	return list
}

// filesOf returns the files that a verb uses without being told.
func filesOf(cmd *cobra.Command) (list []entry) {
	socket := entry{agent.DefaultPath, "Unix socket of bobnet agent, where programs without CAP_NET_RAW get packet sockets."}
	policy := entry{"/etc/bobnet/agent.policy", "Who gets sockets of the agent, as its systemd unit starts it."}
	switch cmd.Name() {
	case "bobnet", "agent":
		return []entry{socket, policy}
	case "demo":
		return []entry{{"out/" + demoHeat + ", out/" + demoPerf, "The pictures, below the folder of --out."}}
	case "rpcgen":
		return []entry{{"FILE_xdr.go", "The Go file, beside FILE.x, unless --output names another."}}
	}
	if cmd.Flags().Lookup("driver") != nil && cmd.Flags().Lookup("iface") != nil {
		return []entry{socket}
	}
	return nil
}
