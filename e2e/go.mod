module pawl.internal/e2e

go 1.26.0

require (
	pawl.internal/gen v0.0.0
	pawl.internal/sdk v0.0.0
	pawl.internal/services v0.0.0
)

replace (
	pawl.internal/gen => ../gen
	pawl.internal/sdk => ../sdk
	pawl.internal/services => ../services
)
