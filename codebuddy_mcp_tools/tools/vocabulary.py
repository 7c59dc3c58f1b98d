"""General vocabulary of English and of programming interfaces: what search words mean beside themselves.

Nothing here belongs to one server or one query. A line of `SAME` holds spellings and abbreviations of one thing. A line
of `NEAR` holds a word and what is often meant by it; it is read from left to right, and counts less the other way.
`PHRASES` are two words that together mean something else. `VERBS` sorts verbs by what they do to the world.
"""

from __future__ import annotations

STOP = """
a an the of to in on for and or with by from at as is are be it its this that these those which i me my we our you your
can could would should will shall may might do does did please want wants wanted need needs like into about some any all
there what how when where who whom whose if why then than so such not no nor has have had was were been being them they
he she his her their us let also just only more most very much many too own both each other another same using use used
uses via given help helps able between across per within under over based according etc e g ie am get's i'm it's
tool tools mcp server function api
"""
"""Words that say nothing about which tool is meant, unless the query has no others."""

LIGHT = """
put make turn take give keep see tell bring set show know work try go come say ask thing things something someone
anything
"""
"""Words that carry half a meaning: `make a slide deck` is about slides."""

SAME = """
repo repository
db database
dir directory folder
doc document docx
docs documentation
config configuration setting preference
env environment
app application
auth authentication authorization
img image picture photo
pic picture
msg message
info information detail
param parameter argument
k8s kubernetes
js javascript
ts typescript
py python
md markdown
ppt pptx powerpoint presentation slide deck
xls xlsx excel spreadsheet workbook
email mail
url link hyperlink
website webpage site
vm machine
org organization organisation
dept department
admin administrator
stats statistic metric
temp temperature
sync synchronize
calc calculate compute
perf performance
err error
num number
lib library
dep dependency
pkg package
cert certificate
pwd password passphrase
cred credential
proj project
ticket issue
fn func function
lang language
colour color
cancelled canceled
catalog catalogue
favourite favorite starred bookmark
geo geographic
coord coordinate latitude longitude
tz timezone
currency forex
crypto cryptocurrency
tv television
movie film
pr pullrequest
mr mergerequest
calendar agenda
autocomplete suggestion
zip compress
unzip decompress
2fa mfa
oauth sso
"""

NEAR = """
create add new make insert generate build initialize compose produce
delete remove drop erase destroy purge clear wipe discard
update edit modify change alter set adjust revise amend
get fetch retrieve read show view obtain load display return lookup
list enumerate browse show
search find query lookup locate seek discover explore
send post deliver dispatch publish share submit notify
run execute invoke launch trigger perform
start launch begin initiate open enable activate boot resume
stop cancel abort terminate halt kill end shutdown disable deactivate
restart reboot reload rollout
move relocate transfer rename
rename move
copy duplicate clone fork
save write store put export persist record
write save put append
open read load navigate visit
navigate goto visit browse open
close shut exit quit
convert transform translate turn change export
merge combine join concatenate consolidate
split divide separate
compare diff difference contrast
calculate compute evaluate determine solve estimate
check verify validate test inspect examine status
analyze analyse analysis examine evaluate assess inspect audit
summarize summary overview digest
recommend suggest recommendation suggestion advise
predict forecast prediction estimate
schedule plan calendar appointment book
book reserve booking reservation
buy purchase order acquire
sell sale
pay payment charge transaction
refund payment return
approve accept confirm
reject decline deny refuse
block ban deny protect
assign allocate
attach link associate connect bind
detach unlink disconnect
connect attach join link
invite add
subscribe follow watch
unsubscribe unfollow
lock protect restrict secure
unlock unprotect
encrypt encode cipher
decrypt decode decipher
compress zip archive
decompress unzip extract
upload put push
download export pull save
push upload
install add setup
uninstall remove
upgrade update version
fix repair resolve patch
import load ingest
export download save
grant give allow permission attach
revoke withdraw remove
permission access role policy privilege right
login signin authenticate session
register signup enroll
scale resize
resize scale crop
increase scale raise grow
reduce decrease shrink
rollback revert undo restore
restore recover rollback
undo revert rollback restore
backup snapshot archive
archive backup
snapshot checkpoint backup
reply respond answer response
comment note annotation remark
annotate label mark
tag label category
reaction emoji like
emoji reaction
like favorite reaction
thread conversation discussion
conversation chat thread dialog
chat message conversation
message chat dm
channel room
mention ping
press click tap push
click press tap select
type fill enter input
fill type input enter
scroll swipe
drag drop
screenshot capture snapshot screen
capture screenshot record
record recording
script code javascript evaluate
code source program
program software
command shell terminal bash cli process
shell terminal command exec
terminal shell console
console log
log trace event history output
error exception failure fault problem
fail failure error crash
crash error log
debug inspect log trace
bug issue defect
issue ticket bug
alert alarm notification
alarm alert
mute silence
silence mute
incident outage alert
monitor watch observe track metric
track monitor follow
dashboard panel board
graph chart plot diagram visualization
chart graph plot visualize diagram
visualize chart plot graph render draw
draw paint render sketch
diagram chart flow
hierarchy tree structure
tree hierarchy directory
table sheet grid
row record entry
column field
cell table
field property attribute column
record row entry document
count number total size
number count
size length count
key entry
query sql select
sql query database
schema structure model
collection table
index catalog
vector embedding semantic
similar similarity vector
storage bucket blob
bucket storage
object blob
blob object storage
secret key vault credential password
password secret credential
token key credential
container pod docker
pod container
deployment deploy release rollout
deploy release publish rollout
release version deploy
version release revision
branch ref
commit revision changeset
history log commit revision
line row
build pipeline job ci
ci pipeline build
pipeline workflow build ci job
workflow automation pipeline
job task run
task job todo
todo task
card task issue
agenda calendar
meeting event call appointment
event meeting calendar
call meeting phone
phone call sms
sms text message
availability freebusy free slot
free availability slot
busy presence availability status
presence status availability
status state health
state status
health status
contact person people
person user people contact member
user account person member profile
member user participant
owner user author
employee staff user
team group
group team
customer client
profile user account
attendee participant
company organization business firm corporation
business company
place location poi venue
location place geocode position address
address location
coordinate location geocode latitude longitude
route direction path trip
direction route navigation
distance far length
far distance
near nearby close
nearby near around
map geographic location
street address road
city town
country nation
car drive vehicle
trip travel journey itinerary
travel trip tour
flight airline plane airport
train railway rail
hotel accommodation lodging homestay stay apartment
restaurant food dining cafe
recipe meal dish cook
meal food recipe dish
weather forecast temperature climate
news article headline
article paper news post
paper publication article literature research
cite citation reference
citation cite reference
research study paper
author writer
book novel
music song track audio
song music track
playlist song music
audio sound voice speech music
speech voice audio
speak speech voice
transcribe transcription transcript recognize
transcript caption subtitle transcription
recognize detect identify ocr
video clip movie
picture image photo
image picture photo figure
icon symbol
presentation slide
slide presentation
document file report
report document summary
file document
text content string
content text body
page website web
web internet online website
internet web online
website page web url
scrape crawl extract
crawl scrape spider
extract parse pull scrape
parse extract
pull fetch extract get
template pattern layout
theme style
style format
format style convert
replace substitute
remember memory store save
recall memory search remember
memory knowledge remember
knowledge memory wiki
note memo
entity node
relation relationship edge
light lamp bulb
lamp light
brightness light
thermostat climate temperature
device sensor
switch toggle
toggle switch
turn switch
power turn
stock share ticker equity
share stock
price cost quote value rate
cost price expense billing
billing invoice cost
rate exchange price
exchange rate convert
market stock
invoice bill
bill invoice
expense cost
finance financial
dividend payout
balance account
company ticker
product item
item product
order purchase
discount coupon deal
shop store shopping
subscription plan
game match
match game
score result
team club
player athlete
health medical fitness
doctor physician
medicine drug medication
drug medicine
disease condition illness
clinical medical trial
job career position employment
school education university
student learner
course class lesson
word term vocabulary
definition meaning dictionary
translate translation language
language translate
random generate
date day time
time date clock hour
timezone time
clock time
today current now
now current
current latest now
latest recent newest current
recent latest new
last latest previous
past history historical
historical history past
upcoming future next
trend trending popular
trending popular trend hot
popular top trending
top best popular
best top
ranking rank top leaderboard
rank ranking
wait sleep pause delay
pause suspend wait
sleep wait
validate check verify
lint validate check
test check
plan explain
explain describe explanation
describe detail explain info
detail info describe
information detail info data
data information dataset
dataset data
statistics metric summary
metric measurement statistic
audit scan check
performance speed profile
profile performance
latency performance speed
request call
vulnerability security cve
security vulnerability
scan check
tab page window
window tab
form field
button element click
element node
cookie session
browser page
domain dns whois
percentage percent ratio
average mean
sum total add
total sum
area surface
solve equation calculate
probability chance odds
sequence dna
gene genetic
molecule compound chemical
chemical compound
"""

PHRASES = {
    "pull request": "pr",
    "merge request": "pr mr pullrequest",
    "sign in": "login",
    "log in": "login",
    "log out": "logout",
    "set up": "setup create configure",
    "look up": "search find get",
    "find out": "get search",
    "turn on": "enable start",
    "turn off": "disable stop",
    "switch on": "enable start",
    "switch off": "disable stop",
    "power on": "start",
    "power off": "stop shutdown",
    "shut down": "shutdown stop",
    "get rid": "delete remove",
    "take away": "remove",
    "throw away": "delete",
    "make sure": "check verify validate",
    "how far": "distance",
    "how many": "count number",
    "how long": "duration time",
    "how much": "price cost amount",
    "how old": "age",
    "text speech": "tts synthesize",
    "speech text": "stt transcribe recognize",
    "web page": "webpage",
    "web site": "website",
    "file name": "filename",
    "time zone": "timezone",
    "spread sheet": "spreadsheet",
    "data base": "database",
    "source code": "code",
    "virtual machine": "vm",
    "word document": "docx",
    "slide deck": "presentation",
    "to do": "todo task",
    "point interest": "poi place",
    "machine learning": "ml",
    "artificial intelligence": "ai",
    "object storage": "storage blob bucket s3",
    "continuous integration": "ci pipeline",
}

VERBS = {
    "create": (
        "create add insert make new generate build initialize init compose draft produce construct append provision "
        "register open setup duplicate clone copy fork upload import"
    ),
    "delete": "delete remove drop erase destroy clear purge wipe uninstall unset discard detach",
    "update": (
        "update edit modify change alter set rename move replace patch adjust configure write save put transition "
        "assign manage reset revise merge resize"
    ),
    "read": (
        "get fetch retrieve read show view list search find query lookup describe count check browse inspect explain "
        "discover locate download export compare diff obtain see display load open"
    ),
    "send": "send post publish share deliver submit reply notify forward email mail",
    "start": "run execute invoke launch start trigger restart enable activate resume begin open deploy perform",
    "stop": "stop cancel abort terminate close kill pause disable halt shutdown deactivate suspend",
    "compute": (
        "calculate compute convert evaluate analyze predict estimate solve translate transform generate summarize "
        "recommend validate verify"
    ),
}
