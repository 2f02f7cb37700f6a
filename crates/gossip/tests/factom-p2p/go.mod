module tidegate/factom-p2p-peer

go 1.13

require (
	github.com/sirupsen/logrus v1.4.2
	github.com/whosoup/factom-p2p v0.0.0-20200820084728-3cfdb9bec515
)
